/* A library whose exit handler must not run: it stands for a PKCS#11 module's, which tears down what live threads use. */

#include <stdlib.h>

__attribute__((destructor)) static void torn_down(void) { abort(); }
