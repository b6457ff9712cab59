/* Library with an exit handler that must not run. It imitates a PKCS#11 module, whose handler frees resources that running
 * threads use. */

#include <stdlib.h>

__attribute__((destructor)) static void torn_down(void) { abort(); }
