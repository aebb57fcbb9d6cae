"""One call, any array, the best kernel, and its distance from the speed of light."""
