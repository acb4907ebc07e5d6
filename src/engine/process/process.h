/*
 * process.h
 *	  What the engine is as a process: its parent, signals, limits, lock file.
 */
#ifndef ENGINE_PROCESS_H
#define ENGINE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct infer_status_page;
struct status;

/* Close every descriptor but 0 to 2 and the two given ones (-1: none). */
extern void process_close_inherited(int keep1, int keep2);

/*
 * Signals, no core dumps, as many descriptors as the hard limit allows, niceness, and,
 * where supervised, the end together with the parent.
 */
extern bool process_init(bool supervised, uint32_t nice, struct status *status);

/* What the handlers of TERM, INT, QUIT and ABRT do before they end the process. */
extern void process_on_exit(struct infer_status_page *page, const char *socket_path);

/* Ends the process as a signal would: page and socket are put in order. */
extern void process_exit(int code) __attribute__((noreturn));

/* The same because of the device, which the page then says: it is lost, or only fails. */
extern void process_exit_device_lost(void) __attribute__((noreturn));

/* Descriptors that may be open at once. */
extern uint32_t process_descriptors_max(void);

/* Exclusive until the process ends; waits for nobody.  The descriptor, or -1 and a status. */
extern int	process_lock(const char *path, struct status *status);

/* Usable cores: affinity and the cgroup's quota, at least 1. */
extern uint32_t process_cores(void);

extern uint64_t process_clock(void);	/* CLOCK_MONOTONIC, nsec */

/* nsec from now, for waits on conditions of that clock. */
extern struct timespec process_time_after(uint64_t nsec);
extern uint64_t process_time(void);		/* CLOCK_REALTIME, usec */

#endif							/* ENGINE_PROCESS_H */
