/*
 * region.h
 *	  Payload regions: mapping them, taking requests out of them, giving them back.
 */
#ifndef ENGINE_SERVER_REGION_H
#define ENGINE_SERVER_REGION_H

#include "../engine.h"

/*
 * Loop.  Maps a client's memfd into a slot; does not close fd.  INFER_ERROR_BUSY over
 * payload_limit, INFER_ERROR_PROTOCOL if it is not what the protocol says.
 */
extern struct region *region_open(struct connection *connection, uint32_t slot, uint64_t size, int fd,
								  struct status *status);

/* Out of the loop's list; from the loop, when its client drops it or is gone. */
extern void region_forget(struct region *region);

/* Unmaps; no request is in flight.  Any thread. */
extern void region_free(struct engine *engine, struct region *region);

/*
 * Loop.  Takes a new request, if there is one.  true: there was.  A request that cannot
 * even be answered closes the connection.
 */
extern bool region_pick_up(struct region *region, uint64_t now);

/* Loop.  CANCEL of the request with this generation; late ones are nothing. */
extern void region_cancel(struct region *region, uint32_t generation);

/*
 * Ends a request, which is in no queue: writes the reply, counts, gives the region back.
 * Engine lock held.  error 0: its rows speak for themselves; else status has the text
 * (NULL: none).  The caller sends the ring when it has let go of the lock.
 */
extern struct ring request_finish(struct request *request, uint32_t error, const struct status *status);

/* No lock held. */
extern void ring_send(const struct ring *ring);

/*
 * Engine lock held, the entry's model is loaded: checks the request against the signature
 * and lays out the reply.  false: the status says why not.
 */
extern bool request_lay_out(struct request *request, struct status *status);

#endif							/* ENGINE_SERVER_REGION_H */
