#include "_common.cuh"
#include "_mma.cuh"
#define MATRIX 1
#include "_conv2d.cuh"
