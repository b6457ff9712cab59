/* Imitates a clock that a time service synchronizes. If CLOCK_UNSYNCHRONIZED is set, the clock is not synchronized. */

#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

int adjtimex(struct timex *state)
{
    int alone = getenv("CLOCK_UNSYNCHRONIZED") != NULL;
    memset(state, 0, sizeof *state);
    state->status = alone ? STA_UNSYNC : STA_PLL;
    return alone ? TIME_ERROR : TIME_OK;
}
