#include "_common.cuh"
#define MATRIX 0
#include "_conv2d.cuh"
