/*
 * internal.h
 *	  What the files of the client share; nobody else includes it.
 *
 * Nouns
 *	connection	the socket to one engine process; its number tells it from earlier ones
 *	region		a memfd mapped here, named by its slot; opened on one connection at a time
 *	deadline	CLOCK_MONOTONIC nsec, 0 none
 *	ask			a frame that is answered by a frame with the same request number
 *
 * Files
 *	connection/		the socket: connect, frames in and out, the one place that sleeps
 *	region.c		memfds and slots
 *	call.c			a call's begin, its inputs, its end
 *	rows.c			what else a call of many rows wants of it
 *	exchange.c		sending it, waiting, acting on the reply
 *	reply.c			reading the reply
 *	room.c			regions and memory that the session's own calls take from one another
 *	spin.c			watching for it instead of sleeping
 *	measured.c		how long rows of each model take, in shared memory, for the planner
 *	recover.c		what an engine's death means to a call
 *	guilty.c		which models are disabled, in shared memory
 *	ask.c			load, unload, stats
 *	errors.c		the engine's errors as SQL errors
 *
 * Invariants
 *	- Any sleep may be left by longjmp.  What must not be left half done is either undone
 *	  by a reset callback or noticed at the next use (sending, of connection/send.c).
 *	- Reset callbacks only post frames and change flags: they never sleep, raise or allocate.
 */
#ifndef INFER_CLIENT_INTERNAL_H
#define INFER_CLIENT_INTERNAL_H

#include "../infer.h"

#include "../client.h"

/* ---- connection/ ---- */

enum SleepEnd { SLEEP_WOKEN, SLEEP_LOST, SLEEP_LATE };

typedef struct Connection
{
	uint64		number;				/* raised by each connection and each close */
	int			sock;				/* -1: none */
	const struct infer_status_page *page;
	uint64		epoch;
	char		numerics_id[INFER_NUMERICS_MAX];
} Connection;

extern Connection connection;

typedef struct Answer				/* to an ask; the body is palloc'd where it was asked */
{
	uint32		type;				/* enum infer_frame_type */
	uint8	   *body;
	uint32		length;
} Answer;

extern uint64 clock_nsec(void);
extern uint64 deadline_from_now(int timeout_ms);

/* Sleep for a while without an engine, or until interrupted; false if the deadline passed. */
extern bool connection_nap(int ms, uint64 deadline);

/* Have a connection, or the reason why not (false). */
extern bool connection_ready(uint64 deadline, struct infer_error_text *err);

static inline bool
connection_is(uint64 number)
{
	return connection.sock >= 0 && connection.number == number;
}

/* Whether the engine gave a reason for closing the last connection. */
extern bool connection_farewell(struct infer_error_text *err);

/* Close it; by_us: the engine is not known to be dead. */
extern void connection_close(bool by_us);

/* Sleep until anything happens; frames that came have been handled. */
extern enum SleepEnd connection_sleep(uint64 deadline);

/* Queue a small frame; never blocks or raises.  With room lacking it closes the connection. */
extern void connection_post(uint16 type, uint32 slot, uint32 generation,
							const void *body, uint32 length);

/* Send a frame with descriptors; sleeps.  Returns SLEEP_WOKEN once it is sent. */
extern enum SleepEnd connection_send(uint16 type, uint32 slot, uint64 request,
									 const void *body, uint32 length,
									 const int *fds, int fds_count, uint64 deadline);
extern uint64 connection_request(void);		/* a new request number */

extern enum SleepEnd connection_ask(uint16 type, const void *body, uint32 length,
									const int *fds, int fds_count, uint64 deadline,
									Answer *answer);

/* An ERROR frame's contents; malformed ones become a protocol error. */
extern void answer_error(const Answer *answer, struct infer_error_text *err);

/* ---- numerics.c ---- */

/* The call is sent: its answer will be of what the connection's engine computes. */
extern void numerics_note(InferCall *call);

/* Whether the answer that has come is of the scope's numerics (NULL: the current one); false: call->error. */
extern bool numerics_agree(InferCall *call, InferScope *within);

/* ---- region.c ---- */

typedef struct Region
{
	struct infer_region *head;		/* the mapping; NULL: this slot has none */
	uint64		size;
	uint32		slot;
	int			fd;					/* of a mapping not yet sent to an engine; else -1 */
	uint64		connection;			/* where it was opened; 0 nowhere */
	uint64		open_request;		/* the REGION frame's */
	bool		ready;				/* the engine may be given requests in it */
	bool		refused;			/* or has refused it: region_refusal says why */
	bool		lost_by_us;			/* its connection was closed by us, not by a dead engine */
	InferCall  *owner;				/* NULL: free, or abandoned until the engine gives it back */
	uint64		seq;				/* of the last request in this mapping */
	uint32		small_uses;			/* releases of any region since this one was needed */
} Region;

extern Region *region_take(InferCall *owner, uint64 size);
extern void region_grow(Region *region, uint64 size, uint64 used);
extern void region_release(Region *region, uint64 used);

/* Give back all regions that no call needs; false: there were none. */
extern bool region_yield(void);

/* Whether the limit has room for this one beside those of this session's other calls. */
extern bool region_could_fit(const Region *region);

/* The engine lets go of a region without a request, whose inputs stay; false: it has no hold of it. */
extern bool region_detach(Region *region, uint64 used);

/* The owners of regions, one after another; *next begins with 0.  NULL: there are no more. */
extern InferCall *region_owner(int *next);

/* Why the engine refused the region that region_attach found refused just now. */
extern const struct infer_error_text *region_refusal(void);

/* Open it on the present connection and wait until it is ready. */
extern enum SleepEnd region_attach(Region *region, uint64 used, uint64 deadline);

static inline bool
region_is_done(const Region *region)
{
	return infer_load_acquire64(&region->head->done_seq) >= region->seq;
}

/* Told by connection/. */
extern void region_on_ready(uint32 slot, uint64 request);
extern bool region_on_error(uint64 request, const struct infer_error_text *err);
extern void region_on_close(bool by_us);

/* ---- call.c ---- */

#define ROW_KILLED PG_UINT32_MAX

struct InferCall
{
	MemoryContext context;			/* the call's own, child of the caller's */
	MemoryContextCallback callback;
	const InferModel *model;
	uint32		rows;				/* as begun */
	uint32		rows_sent;			/* without those that ended an engine */
	uint32	   *row_map;			/* NULL: all were sent; else the request's row, or ROW_KILLED */
	Region	   *region;
	uint64		used;				/* bytes of the region that hold inputs */
	uint64		deadline;
	uint32		outputs;			/* wanted, as in struct infer_request */
	uint32		class_;
	bool		submitted;			/* its inputs are complete */
	bool		sent;				/* a request is in the region */
	bool		marked;
	bool		once;				/* never marked: it fails instead */
	bool		profile;
	bool		waiting;			/* somebody sleeps, or slept, until it has ended */
	bool		finished;
	uint64		spin;				/* nsec to watch for the result; 0: sleep at once */
	int			deaths;				/* of engines, marked, that named no row */
	int			farewells;			/* connections that the engine closed with a reason */
	uint64		blameless;			/* ends of engines that are nobody's guilt, when it was sent */
	char		numerics_id[INFER_NUMERICS_MAX];	/* of the engine that it was sent to */
	struct infer_column *columns;	/* per input; type NONE: not filled yet */
	struct infer_error_text error;	/* error != 0: the call has failed */
	struct infer_reply reply;		/* copied out and checked */
	struct infer_column *results;	/* per output, likewise */
	uint64		reply_end;			/* of the region that it came in, an offset */
	char	   *kept;				/* the reply, once it had to leave its region; else NULL */
	char	   *kept_inputs;		/* and the inputs, from INFER_REGION_HEAD on, where results need them */
};

static inline uint64
align_up(uint64 value, uint64 alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* Where the inputs end and the reply begins, an offset in the region. */
static inline uint64
call_reply_begin(const InferCall *call)
{
	return align_up(call->used, 64);
}

static inline char *
call_address(const InferCall *call, uint64 offset)
{
	return (char *) call->region->head + offset;
}

/* Bytes of so many rows of a tensor, in a region; a guess where strings or dimensions vary. */
extern uint64 tensor_bytes(const struct infer_tensor *tensor, uint64 rows);

/* Of all inputs. */
extern uint64 inputs_bytes(const InferModel *model, uint64 rows);

/* Whether a call asks for nothing but what the model's tokenizer says: the device has no part in it. */
extern bool call_is_of_tokens(const InferCall *call);

/* Whether a call that asks for these outputs (as in struct infer_request) gets this one. */
extern bool output_is_wanted(const InferModel *model, uint32 outputs, uint32 output);

/* What a reply will take, most likely; the engine says so if it takes more. */
extern uint64 call_reply_bytes(const InferCall *call);

/* Let go of the region, and cancel what is in flight; from a reset callback too. */
extern void call_give_up(InferCall *call);

/* ---- reply.c ---- */

/* Check a successful reply, and copy its columns.  False: call->error. */
extern bool reply_read(InferCall *call);

/* An encoded error at an offset from the reply's begin; its class alone if there is none. */
extern void reply_error(const InferCall *call, uint64 offset, uint32 error, struct infer_error_text *err);

/* The call's error is that of a malformed reply; returns false. */
extern bool reply_malformed(InferCall *call, const char *what);

/* The call has finished: what its results need moves to memory of this process alone, its region is free. */
extern void reply_keep(InferCall *call);

/* ---- exchange.c ---- */

/* Until the call has ended, well or not; raises interruptions only. */
extern void call_finish(InferCall *call);

/* ---- room.c ---- */

/* Free the regions of the session's other calls that have ended; whether there were any. */
extern bool room_from_ended(const InferCall *call);

/* Wait for another one that was submitted; false: there is none. */
extern bool room_from_submitted(const InferCall *call);

/* Have the engine let go of the regions that are being filled; whether there were any. */
extern bool room_from_filled(const InferCall *call);

/* ---- spin.c ---- */

/* How long to watch for the result, in nsec; awake: the engine need not be woken. */
extern uint64 spin_nsec(const InferCall *call, bool awake);

/* Watch for the result for call->spin, without a system call; whether it came. */
extern bool spin_for_result(const InferCall *call);

/* The engine took so long for a call of this key. */
extern void spin_learn_time(const uint8 *key, uint64 nsec);

/* ---- measured.c ---- */

/* A call has finished: what its reply says of a row's time. */
extern void measured_learn(const InferCall *call);

/* ---- recover.c ---- */

/*
 * The connection of a call in flight has gone: decide how it is sent again.  May find a
 * row guilty and take it out of the request.  False: the call has ended (call->error).
 */
extern bool recover_call(InferCall *call);

/* An engine was lost while it computed the call: its rows run one at a time from now on.  False as above. */
extern bool recover_mark(InferCall *call);

/* ---- guilty.c ---- */

extern bool guilty_is_disabled(const uint8 *key);
extern void guilty_record(const uint8 *key, uint64 input);
extern void guilty_record_load(const uint8 *key, uint64 engine);
extern void guilty_forgive(const uint8 *key);

/* ---- ask.c ---- */

/* False with the reason in err.  The deadline moves by the time spent writing files. */
extern bool ask_load(const InferModel *model, uint32 flags, uint64 *deadline,
					 struct infer_signature *signature, MemoryContext context,
					 struct infer_error_text *err);

/* ---- errors.c ---- */

extern void error_set(struct infer_error_text *err, uint32 error, const char *message,
					  const char *detail, const char *hint);
extern void error_late(struct infer_error_text *err);
extern void error_no_answer(struct infer_error_text *err);

#endif							/* INFER_CLIENT_INTERNAL_H */
