/*
 * devices.h
 *	  infer-engine devices: what the engine could compute on here, or why not, for people.
 */
#ifndef ENGINE_DEVICES_H
#define ENGINE_DEVICES_H

/* library: of the CUDA device, or NULL.  Returns the exit status: 0, or 1 if there is not even a CPU. */
extern int	devices_list(const char *library);

#endif							/* ENGINE_DEVICES_H */
