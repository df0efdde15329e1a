/* C_i = alpha * A_i B_i + beta * C_i for i < groups, made for few rows of A: B goes once through the device, as fast as
 * its memory is. Sizes, distances and leading dimensions are in elements. Status codes: 0 done, 1 a CUDA call failed, 2
 * wrong arguments, 4 no device for which the file was built. SCHEME_error says more, for the calling host thread. */
#ifndef SCHEME_H
#define SCHEME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* PRODUCT */

#ifdef SUBCUBIC_EPILOGUE
SCHEME_EXTRAS

#endif  // SUBCUBIC_EPILOGUE
/* Makes a handle for the current device and loads the kernels, so not while a graph is being captured. */
int SCHEME_open(void** handle);

/* How many tiles there are; the columns of C that one takes, 0 for a number that there is not; the most blocks that can
 * share the depth on the handle's device, of which the last tiles may take 8 alone. Those bring B through shared memory by bulk
 * copies; the rule leaves them out where a device has not got them, and a launch refuses them there. */
int SCHEME_tiles(void);
int SCHEME_columns(int tile);
int SCHEME_most_split(void* handle);

/* What the rule takes for a product, which is refused as by a launch; nothing of it is read. */
int SCHEME_choose(void* handle, const SCHEME_product* product, int32_t* tile, int32_t* split);

/* What another rule would take, a second one to begin a search with: square operands that fill shared memory, fewer columns
 * for fewer rows. */
int SCHEME_square(void* handle, const SCHEME_product* product, int32_t* tile, int32_t* split);

/* Queues one kernel on the stream; no workspace, no allocation, no synchronisation, so it can be captured in a CUDA graph.
 * Any number of rows is right, from 17 on B is read again for every 16. */
#ifdef SUBCUBIC_EPILOGUE
int SCHEME_launch(void* handle, void* stream, const SCHEME_product* product, const SCHEME_extras* extras);
#else  // SUBCUBIC_EPILOGUE
int SCHEME_launch(void* handle, void* stream, const SCHEME_product* product);
#endif  // SUBCUBIC_EPILOGUE

/* Frees a handle; null is allowed. */
void SCHEME_close(void* handle);

/* The last error of the calling host thread in one sentence. */
const char* SCHEME_error(void);

#ifdef __cplusplus
}
#endif

#endif
