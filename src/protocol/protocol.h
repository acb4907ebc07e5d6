/*
 * protocol.h
 *	  What the extension (in a PostgreSQL backend) and the engine say to each other.
 *
 * Nouns
 *	frame		a fixed header and at most INFER_FRAME_MAX bytes on a Unix stream socket
 *	region		a memfd that a client made and both sides map: one request at a time,
 *				its typed input columns, and the reply.  A connection has up to
 *				INFER_REGIONS_MAX of them, named by slot
 *	request		n rows for one model key, described by struct infer_request in the region
 *	column		the values of one input or output tensor for all rows of a request
 *	reply		per-row status, output columns, texts: written by the engine into the
 *				part of the region that the request names
 *	status page	a page that the engine writes and everybody else reads: whether it is
 *				awake, how busy it is, its heartbeats
 *	signature	what a model takes and returns, in a portable encoding
 *
 * Loop
 *	The client connects, sends HELLO, gets WELCOME with the status page.  It opens a
 *	region (REGION → READY), writes a request into it, raises submit_seq, and rings the
 *	doorbell (an empty SUBMIT frame) only if the status page says that the engine sleeps.
 *	The engine copies the request out, validates it, runs it, writes the reply, raises
 *	done_seq, and rings back (an empty RESULT frame) only if client_asleep is set.
 *	Sleeping and ringing follow one rule on both sides: set own asleep flag, full fence,
 *	look at the word again, sleep; the other side raises the word, full fence, looks at
 *	the flag.  So a wake-up is never lost.
 *
 * Invariants
 *	- A region belongs to the engine from submit_seq until done_seq reaches it (a
 *	  cancelled request ends that way too).  A client that gives up sends CANCEL and
 *	  takes another region; in the end it closes the connection.
 *	- Each side copies what the other wrote before it validates it, and validates all of
 *	  it.  A bad frame closes one connection, never a process.
 *	- Everything is little-endian with fixed widths.  Offsets count bytes from the start
 *	  of the region; pointers never cross.
 *	- A closed connection frees all that it held.
 *
 * PROTOCOL.md tells the same as prose with the byte layouts.
 */
#ifndef INFER_PROTOCOL_H
#define INFER_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "errors.h"

#define INFER_PROTOCOL_MAGIC	0x52464E49u		/* "INFR" */
#define INFER_PROTOCOL_VERSION	1
#define INFER_FRAME_MAX			(1u << 20)		/* bytes after a frame's header */
#define INFER_FDS_MAX			64				/* descriptors with one frame */
#define INFER_REGIONS_MAX		64				/* regions of one connection */
#define INFER_REGION_MIN		(64u << 10)		/* bytes */
#define INFER_REGION_MAX		(1ull << 31)	/* bytes, one region */
#define INFER_ROWS_MAX			65536			/* rows of one request */
#define INFER_COLUMNS_MAX		256				/* inputs or outputs of a model */
#define INFER_RANK_MAX			8
#define INFER_NAME_MAX			256				/* bytes of a tensor's or file's name */
#define INFER_BUILD_MAX			32				/* bytes of a version text, zero-padded */
#define INFER_NUMERICS_MAX		64				/* and of a numerics_id */
#define INFER_KEY_BYTES			32				/* a SHA-256 */
#define INFER_MESSAGE_MAX		1024			/* bytes of a message, detail or hint */

/* ---- types of elements; device.h uses the same numbers ---- */

enum infer_type
{
	INFER_TYPE_NONE = 0,
	INFER_TYPE_F32 = 1,
	INFER_TYPE_F64 = 2,
	INFER_TYPE_I32 = 3,
	INFER_TYPE_I64 = 4,
	INFER_TYPE_BOOL = 5,			/* one byte, 0 or 1 */
	INFER_TYPE_STRING = 6,			/* UTF-8, see struct infer_column */
	INFER_TYPE_LAST = 6
};

/* ---- frames ---- */

enum infer_frame_type
{
	/* client to engine */
	INFER_FRAME_HELLO = 1,			/* struct infer_hello */
	INFER_FRAME_REGION = 2,			/* struct infer_region_open, one descriptor */
	INFER_FRAME_DROP = 3,			/* slot in header; the region must be idle */
	INFER_FRAME_SUBMIT = 4,			/* empty: look at the region's submit_seq */
	INFER_FRAME_CANCEL = 5,			/* empty; slot and generation name the request */
	INFER_FRAME_LOAD = 6,			/* struct infer_load, options text, file entries */
	INFER_FRAME_UNLOAD = 7,			/* struct infer_unload */
	INFER_FRAME_STATS = 8,			/* struct infer_stats_ask */
	INFER_FRAME_ACTIVITY = 9,		/* empty */

	/* engine to client */
	INFER_FRAME_WELCOME = 65,		/* struct infer_welcome, descriptor of the status page */
	INFER_FRAME_READY = 66,			/* the region of this slot may be used */
	INFER_FRAME_RESULT = 67,		/* empty: look at the region's done_seq */
	INFER_FRAME_CANCELLED = 68,		/* empty: likewise, the request ended by CANCEL */
	INFER_FRAME_LOADED = 69,		/* an encoded signature */
	INFER_FRAME_UNLOADED = 70,		/* empty */
	INFER_FRAME_STATS_REPLY = 71,	/* struct infer_stats_head and its entries: devices, models, classes */
	INFER_FRAME_ERROR = 72,			/* an encoded error: answer to the frame with this request
									 * number; 0: the connection is being closed */
	INFER_FRAME_TOKEN = 73,			/* reserved for streaming */
	INFER_FRAME_ACTIVITY_REPLY = 74	/* struct infer_activity_head and its entries */
};

struct infer_frame					/* 32 bytes */
{
	uint32_t	magic;
	uint16_t	version;
	uint16_t	type;				/* enum infer_frame_type */
	uint64_t	request;			/* the asker's number, repeated in the answer */
	uint32_t	slot;				/* region, where the frame is about one */
	uint32_t	generation;			/* low half of the region's submit_seq, where about a request */
	uint32_t	length;				/* bytes that follow */
	uint32_t	reserved;			/* 0 */
};

struct infer_hello
{
	uint32_t	protocol;			/* INFER_PROTOCOL_VERSION */
	uint32_t	database;			/* oid */
	uint32_t	role;				/* oid */
	uint32_t	pid;				/* of the backend, for display */
	char		build[INFER_BUILD_MAX];		/* the extension library's version */
};

struct infer_welcome
{
	uint32_t	protocol;
	uint32_t	cores;				/* compute threads */
	uint64_t	epoch;				/* this engine process, CLOCK_REALTIME usec of its start */
	uint64_t	payload_limit;		/* bytes, one region */
	char		build[INFER_BUILD_MAX];		/* the engine's version */
	char		numerics_id[INFER_NUMERICS_MAX];	/* what the bits of its results depend on */
};

struct infer_region_open
{
	uint64_t	size;				/* bytes; the memfd has this size and is sealed against
									 * shrinking and against further seals */
};

/*
 * LOAD: options_length bytes of text follow (the model's options as the catalogue
 * keeps them, a JSON object; read by the engine at load time only), then, where
 * files_count is not 0, that many file entries (encoded: string name, u64 size), each
 * with one descriptor in the same order: a model stored by reference.  With
 * files_count = 0 the files are those of the model cache, in the folder named by the
 * digest in lower-case hex.
 *
 * The digest is the SHA-256 over all files in bytewise order of their names (relative to
 * the model's folder, '/' between parts), for each: the name's bytes, one zero byte, the
 * size as u64 little-endian, the 32 bytes of the SHA-256 of its contents.  A model of a
 * single file is a folder with that file.  Folders are not hashed by themselves, empty
 * files are.  The engine verifies the digest, of descriptors too, before it believes a
 * byte, and then sets the folder's modification time: the cache removes the oldest first.
 * The key is the digest itself if options_length is 0, else the SHA-256 of the digest
 * followed by the options text.
 *
 * A writer that cannot write (NEED_FILES made it one) sends UNLOAD for the key: the next
 * that waits is asked.  Files are written into a folder of a name that does not look like a
 * digest, in the same cache, and renamed.
 */
struct infer_load
{
	uint8_t		key[INFER_KEY_BYTES];		/* how SUBMIT will name it */
	uint8_t		digest[INFER_KEY_BYTES];	/* of the files */
	uint32_t	flags;						/* INFER_LOAD_* */
	uint32_t	options_length;
	uint32_t	files_count;
	uint32_t	model;						/* oid of the foreign server, for display */
	uint32_t	version;					/* of it, for display */
	uint32_t	role;						/* oid, for display */
};

#define INFER_LOAD_RETRY	1u		/* forget an earlier failure of this key */
#define INFER_LOAD_WROTE	2u		/* the asker wrote the files, as NEED_FILES told it to */
#define INFER_LOAD_CHECK	4u		/* only check and answer the signature; do not keep */

struct infer_unload
{
	uint8_t		key[INFER_KEY_BYTES];
};

#define INFER_CLASSES			3	/* enum infer_class */
#define INFER_PERCENTILES		3	/* 50, 95, 99 */

struct infer_stats_ask
{
	uint32_t	flags;				/* 1: reset all counters after this page has been read */
	uint32_t	from;				/* next of the page before; 0: the first one */
};

struct infer_stats_head
{
	uint64_t	epoch;
	uint64_t	since;				/* CLOCK_REALTIME usec of the last reset */
	uint32_t	devices_count;		/* struct infer_stats_device each */
	uint32_t	models_count;		/* struct infer_stats_model each */
	uint32_t	connections;
	uint32_t	classes_count;		/* struct infer_stats_class each */
	uint64_t	regions_bytes;		/* mapped payload of all connections */
	uint64_t	elapsed_usec;		/* since the last reset, by a clock that is never set */
	uint32_t	next;				/* where the next page begins, greater than from; 0: there is none */
	uint32_t	left_out;			/* models for which this page had no room */
};

struct infer_stats_device
{
	char		name[64];			/* "cpu" */
	char		description[128];	/* the processor's or card's name; "": there is none */
	char		detail[128];		/* why it is not used, or what it lacks; or "" */
	uint64_t	host_copies;		/* tensors copied to the CPU and back, since the start, for operators that it computes; */
	uint64_t	host_bytes;			/* and their bytes */
	char		numerics_id[INFER_NUMERICS_MAX];
	uint64_t	bytes_budget;
	uint64_t	bytes_used;
	uint64_t	busy_usec;			/* since the last reset */
	uint32_t	threads;
	uint32_t	in_use;				/* 1: this device computes */
	char		arch[64];			/* the instruction set that its kernels use */
};

struct infer_stats_model
{
	uint8_t		key[INFER_KEY_BYTES];
	uint32_t	state;				/* enum infer_model_state */
	uint32_t	from_cache;			/* 1: loaded from the packed cache, 0: packed at this load */
	uint64_t	bytes;				/* weights and arena held */
	uint64_t	load_usec;			/* that the last load took */
	uint64_t	loaded_at;			/* CLOCK_REALTIME usec, 0 never */
	uint64_t	last_used_at;
	uint64_t	calls;				/* requests ended, however */
	uint64_t	rows;				/* rows computed */
	uint64_t	batches;
	uint64_t	errors;				/* rows that ended in an error */
	uint64_t	cancelled;			/* rows that were cancelled or late and not computed */
	uint64_t	queue_usec;			/* summed over rows */
	uint64_t	compute_usec;		/* device time, summed over batches */
	uint64_t	inline_calls;		/* run to the end on the thread that read them */
	uint64_t	segments;			/* that batches ran in */
	uint64_t	interrupted;		/* how often another batch ran between two segments of one */
	uint64_t	segments_long;		/* single segments predicted to be longer than a slice */
	uint64_t	tokens;				/* computed; 0 where rows have none */
	uint64_t	prepare_usec;		/* that texts took to become tokens, summed over calls */
	uint32_t	predictions;		/* that the median is over; 0: none yet */
	uint32_t	predicted_error;	/* per mille, median of |predicted - actual| / actual */
};

struct infer_stats_class			/* the calls of one class of a model, of those that had any */
{
	uint32_t	model;				/* index among the models before */
	uint32_t	class_;				/* enum infer_class */
	uint64_t	calls;
	uint64_t	rows;
	uint64_t	batches;			/* that rows of this class were in */
	uint64_t	batch_rows;			/* rows of those, with other classes' */
	uint64_t	errors;
	uint64_t	cancelled;
	uint64_t	queue_usec;			/* summed over rows */
	uint64_t	compute_usec;		/* device time: of each batch the share by rows */
	uint64_t	inline_calls;
	uint64_t	tokens;				/* computed */
	uint64_t	filled;				/* tokens of those batches; rows, where they have none or infer.batch_tokens is 0 */
	uint64_t	room;				/* how many there was room for; filled ÷ room is how full they were */
	uint64_t	prepare_usec;		/* summed over calls */
	uint64_t	timed;				/* 0: no call was computed, and there is no percentile */
	uint64_t	queue_nsec[INFER_PERCENTILES];		/* of calls; see histogram.h for the error */
	uint64_t	compute_nsec[INFER_PERCENTILES];
};

enum infer_model_state
{
	INFER_MODEL_LOADING = 1,
	INFER_MODEL_LOADED = 2,
	INFER_MODEL_FAILED = 3,
	INFER_MODEL_EVICTED = 4
};

/*
 * ACTIVITY_REPLY: what waits and runs, as far as the frame has room.
 */
struct infer_activity_head
{
	uint32_t	count;				/* struct infer_activity each */
	uint32_t	left_out;			/* for want of room */
};

enum infer_activity_state
{
	INFER_ACTIVITY_QUEUED = 1,
	INFER_ACTIVITY_RUNNING = 2,		/* some of its rows are being computed */
	INFER_ACTIVITY_LOADING = 3,		/* waits until the model is loaded */
	INFER_ACTIVITY_PREPARING = 4	/* its texts become tokens, or wait to */
};

struct infer_activity				/* a request, or (rows = 0) a LOAD that waits */
{
	uint8_t		key[INFER_KEY_BYTES];
	uint32_t	pid;				/* of the backend, as HELLO said, like the next */
	uint32_t	database;			/* oid */
	uint32_t	role;				/* oid, as the request said */
	uint32_t	model;				/* oid of the foreign server, 0 not known */
	uint32_t	version;
	uint32_t	class_;				/* enum infer_class */
	uint32_t	rows;
	uint32_t	rows_done;
	uint32_t	state;				/* enum infer_activity_state */
	uint32_t	reserved;
	uint64_t	queue_usec;			/* waited so far */
	uint64_t	compute_usec;		/* while it runs: since its batch began */
};

/* ---- the status page ---- */

struct infer_status_page			/* one page; written by the engine alone */
{
	uint32_t	magic;
	uint32_t	version;
	uint64_t	epoch;
	uint32_t	state;				/* enum infer_engine_state */
	uint32_t	cores;				/* compute threads */
	char		device[16];			/* "cpu"; its name, zero-padded, as far as it fits */
	_Alignas(64)
	uint32_t	awake;				/* 1: the event loop will look at submit_seq by itself */
	_Alignas(64)
	uint32_t	requests;			/* requests queued or running */
	uint32_t	device_busy;		/* 1 while a batch is on the device */
	uint64_t	free_at;			/* predicted end of what is queued, CLOCK_MONOTONIC nsec */
	_Alignas(64)
	uint64_t	loop_beat;			/* rises while the event loop lives */
	uint64_t	device_beat;		/* rises at every claimed chunk while device_busy */
	uint64_t	load_beat;			/* and at those of constants, while load_busy */
	uint32_t	load_busy;			/* not 0 while a model's constants are on the device, beside batches */
	uint32_t	device_lost;		/* 1: the engine ends because its device is of no more use */
};

enum infer_engine_state
{
	INFER_ENGINE_STARTING = 1,
	INFER_ENGINE_READY = 2,
	INFER_ENGINE_STOPPING = 3
};

/* ---- regions ---- */

enum infer_class					/* who is refused, and who waits */
{
	INFER_CLASS_INTERACTIVE = 0,
	INFER_CLASS_STATEMENT = 1,
	INFER_CLASS_JOB = 2
};

#define INFER_REQUEST_MARKED	1u	/* was running when an engine died: rows run one at a time */
#define INFER_REQUEST_PROFILE	2u	/* one row: the reply has the time of each operator */

struct infer_request				/* written by the client before it raises submit_seq */
{
	uint8_t		key[INFER_KEY_BYTES];
	uint64_t	deadline;			/* CLOCK_MONOTONIC nsec, 0 none */
	uint32_t	rows;				/* 1 to INFER_ROWS_MAX */
	uint32_t	columns;			/* one per input of the signature, in its order */
	uint64_t	columns_offset;		/* struct infer_column each, 8-byte aligned */
	uint64_t	reply_offset;		/* 64-byte aligned */
	uint64_t	reply_bytes;
	uint32_t	class_;				/* enum infer_class */
	uint32_t	flags;				/* INFER_REQUEST_* */
	uint32_t	role;				/* oid, for fairness */
	uint32_t	outputs;			/* bit i: output i is wanted; 0 means all that are not hidden */
	uint32_t	model;				/* oid of the foreign server, for display */
	uint32_t	version;			/* of it, for display */
	int32_t		priority;			/* of class job: among its requests, higher ones go first */
	uint32_t	reserved;
};

/*
 * A column: width elements for each row, row-major, contiguous, 64-byte aligned.
 * Strings: spans_offset locates one struct infer_span for each element, and data is
 * where their bytes lie, in any order (equal strings may share them).
 * Variable width (width = INFER_WIDTH_VARIES): of an input, rows_offset locates rows uint32
 * that say where each row ends, in elements; of an output, whose rows come in any order,
 * spans_offset locates one struct infer_span for each row, and its elements begin there, at
 * a multiple of 8 bytes from data_offset.
 */
struct infer_span
{
	uint32_t	begin;				/* bytes from data_offset */
	uint32_t	length;				/* bytes */
};

#define INFER_WIDTH_VARIES UINT64_MAX

struct infer_column					/* 56 bytes */
{
	uint32_t	type;				/* enum infer_type */
	uint32_t	reserved;
	uint64_t	width;				/* elements per row, or INFER_WIDTH_VARIES */
	uint64_t	data_offset;
	uint64_t	data_bytes;
	uint64_t	spans_offset;		/* strings, else 0 */
	uint64_t	rows_offset;		/* variable width, else 0 */
	uint64_t	reserved2;
};

enum infer_run_state				/* why a client resends, and how, after the engine's death */
{
	INFER_RUN_IDLE = 0,
	INFER_RUN_QUEUED = 1,			/* was only waiting: sent again unmarked */
	INFER_RUN_RUNNING = 2,			/* was computing: sent again marked */
	INFER_RUN_DONE = 3
};

/*
 * Reply, all inside [reply_offset, reply_offset + reply_bytes), its parts located by
 * offsets from the region's start: row_status (uint32 enum infer_error each),
 * row_message (uint32 offset from reply_offset of an encoded error, 0 none), then one struct infer_column per output of the signature (an output
 * that was not wanted has type INFER_TYPE_NONE), then data.  error is the whole
 * request's; then error_offset (from reply_offset) locates an encoded error, or is 0.
 */
struct infer_reply					/* written by the engine before it raises done_seq */
{
	uint32_t	error;				/* enum infer_error */
	uint32_t	columns;
	uint64_t	error_offset;
	uint64_t	row_status_offset;
	uint64_t	row_message_offset;
	uint64_t	columns_offset;
	uint64_t	bytes_wanted;		/* with INFER_ERROR_NEED_SPACE: reply_bytes that would do */
	uint32_t	rows_failed;
	uint32_t	batches;			/* how many batches the rows were spread over */
	uint32_t	batch_rows;			/* rows of the largest of them, strangers included */
	uint32_t	profile_bytes;		/* 0: none */
	uint64_t	queue_nsec;			/* the longest wait of a row */
	uint64_t	compute_nsec;		/* device time of those batches */
	uint64_t	profile_offset;		/* of an encoded profile */
	uint64_t	tokens;				/* of the rows that were computed; 0 where rows have none */
	uint64_t	prepare_nsec;		/* that the rows' texts took to become tokens, before they waited */
};

struct infer_region					/* the first page of a region */
{
	uint32_t	magic;
	uint32_t	version;
	uint64_t	size;

	_Alignas(64)
	uint64_t	submit_seq;			/* client: +1 for each request */
	uint32_t	client_asleep;		/* client: ring me */
	uint32_t	reserved;

	_Alignas(64)
	uint64_t	done_seq;			/* engine: the last request that ended */
	uint32_t	run_state;			/* engine: enum infer_run_state */
	uint32_t	running_row;		/* engine: of a marked request */

	_Alignas(64)
	struct infer_request request;

	_Alignas(64)
	struct infer_reply reply;
};

#define INFER_REGION_HEAD	4096u	/* columns, data and reply lie behind it */

/* ---- ordering and doorbells ---- */

static inline uint64_t
infer_load_acquire64(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint32_t
infer_load_acquire32(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void
infer_store_release64(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void
infer_store_release32(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void
infer_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* In a loop that watches a word: let the other thread of the core, and the bus, alone. */
static inline void
infer_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * The waker's half: publish the word, then learn whether the other side must be rung.
 */
static inline int
infer_publish(uint64_t *word, uint64_t value, const uint32_t *asleep)
{
	infer_store_release64(word, value);
	infer_fence();
	return infer_load_acquire32(asleep) != 0;
}

/* ---- a bounded encoding for what has no fixed size ---- */

struct infer_writer					/* never writes past size; failed says that it did not fit */
{
	uint8_t    *data;
	size_t		size;
	size_t		used;
	int			failed;
};

struct infer_reader					/* never reads past size; failed says that it wanted to */
{
	const uint8_t *data;
	size_t		size;
	size_t		used;
	int			failed;
};

extern void infer_put_u32(struct infer_writer *w, uint32_t value);
extern void infer_put_u64(struct infer_writer *w, uint64_t value);
extern void infer_put_bytes(struct infer_writer *w, const void *data, size_t length);
extern void infer_put_string(struct infer_writer *w, const char *text, size_t length);	/* u32 length, bytes */
extern uint32_t infer_get_u32(struct infer_reader *r);
extern uint64_t infer_get_u64(struct infer_reader *r);
extern const uint8_t *infer_get_bytes(struct infer_reader *r, size_t length);	/* NULL if failed */
extern const char *infer_get_string(struct infer_reader *r, uint32_t *length);	/* not terminated */

/* An error as data: u32 class, then message, detail and hint (each may be empty). */
struct infer_error_text
{
	uint32_t	error;
	char		message[INFER_MESSAGE_MAX];
	char		detail[INFER_MESSAGE_MAX];
	char		hint[INFER_MESSAGE_MAX];
};

extern void infer_put_error(struct infer_writer *w, uint32_t error, const char *message,
							const char *detail, const char *hint);
extern int	infer_get_error(struct infer_reader *r, struct infer_error_text *out);	/* 0 if well-formed */

/* ---- signatures ---- */

enum infer_task
{
	INFER_TASK_NETWORK = 0,			/* numbers to numbers, no more is known */
	INFER_TASK_REGRESSION = 1,		/* one number */
	INFER_TASK_CLASSIFIER = 2,		/* a label and, mostly, scores by class */
	INFER_TASK_EMBEDDING = 3,		/* a text to a vector */
	INFER_TASK_RERANKER = 4,		/* a query and a document to a score */
	INFER_TASK_ENTITIES = 5,		/* a text to the stretches of it that name something */
	INFER_TASK_LAST = INFER_TASK_ENTITIES
};

enum infer_role
{
	INFER_ROLE_VALUE = 0,
	INFER_ROLE_LABEL = 1,			/* the class chosen */
	INFER_ROLE_SCORES = 2,			/* one number per class, in the order of classes */

	/* inputs of models that read text */
	INFER_ROLE_TEXT = 3,			/* the text; a reranker's query */
	INFER_ROLE_PAIR = 4,			/* the text after it; a reranker's document */
	INFER_ROLE_PROMPT = 5,			/* hidden: the name of one of the model's prompts; "": its default */
	INFER_ROLE_OPTIONS = 6,			/* hidden: INFER_TEXT_OPTIONS numbers, see there */

	/* their outputs */
	INFER_ROLE_EMBEDDING = 7,		/* F32; with fewer dimensions asked for, zeros behind them */
	INFER_ROLE_SCORE = 8,			/* F32: how well the document answers the query */
	INFER_ROLE_ENTITY_TYPES = 9,	/* I32 [-1]: index into classes, of each entity */
	INFER_ROLE_ENTITY_PLACES = 10,	/* I32 [-1, 2]: its first character, from 0, and that behind its last */
	INFER_ROLE_ENTITY_SCORES = 11,	/* F32 [-1] */
	INFER_ROLE_TOKENS = 12,			/* hidden: I32 [-1]: ids, with the special ones */
	INFER_ROLE_TOKEN_COUNT = 13,	/* hidden: I32 */
	INFER_ROLE_CHUNKS = 14,			/* hidden: I32 [-1, 3]: first character, that behind the last, tokens */
	INFER_ROLE_LAST = INFER_ROLE_CHUNKS
};

/*
 * What a call may ask of a text, as an I32 column of this width.  All zeros: as the model
 * says.
 */
#define INFER_TEXT_OPTIONS	8

enum infer_text_option
{
	INFER_TEXT_FLAGS = 0,			/* INFER_TEXT_* below */
	INFER_TEXT_DIMENSIONS = 1,		/* of the embedding: its first so many; 0: all */
	INFER_TEXT_CHUNK_TOKENS = 2,	/* of a chunk, at most */
	INFER_TEXT_CHUNK_OVERLAP = 3,	/* tokens */
	INFER_TEXT_CHUNK_BORDER = 4		/* enum infer_border; the rest is 0 */
};

#define INFER_TEXT_TRUNCATE		1u	/* a text that is too long is cut, */
#define INFER_TEXT_REFUSE		2u	/* or an error */
#define INFER_TEXT_NORMALIZE	4u	/* the embedding has length 1, */
#define INFER_TEXT_RAW			8u	/* or is as the pooling left it */
#define INFER_TEXT_NO_PROMPT	16u	/* not even the default one */

enum infer_border
{
	INFER_BORDER_TOKEN = 0,
	INFER_BORDER_SENTENCE = 1,
	INFER_BORDER_PARAGRAPH = 2
};

#define INFER_TENSOR_MISSING	1u	/* input: NaN (or an empty string) stands for a missing value */
#define INFER_TENSOR_MAP		2u	/* output: shown as an object by class (ZipMap) */
#define INFER_TENSOR_BATCH		4u	/* its first dimension is the batch; dims leave it out */
#define INFER_TENSOR_HIDDEN		8u	/* input: no argument reaches it, a verb fills it; output: only
									 * for who asks for it by its bit */

struct infer_tensor					/* dims are those of one row */
{
	char	   *name;
	uint32_t	type;				/* enum infer_type */
	uint32_t	role;				/* enum infer_role */
	uint32_t	flags;				/* INFER_TENSOR_* */
	uint32_t	rank;
	int64_t		dims[INFER_RANK_MAX];	/* -1: varies from row to row */
};

struct infer_signature				/* the pointers belong to whoever decoded or built it */
{
	uint32_t	task;				/* enum infer_task */
	uint32_t	flags;				/* INFER_SIGNATURE_* */
	uint64_t	bytes;				/* weights in memory */
	uint64_t	alone_nsec;			/* predicted of a row by itself; 0: no prediction */
	uint64_t	row_nsec;			/* and of one of many that are computed together */
	char	   *kind;				/* "graph", later "trees", "encoder", "decoder" */
	char	   *format;				/* "onnx 8, ai.onnx 17, ai.onnx.ml 3" */
	char	   *notes;				/* what a user should know, or "" */
	char	   *facts;				/* what else is known, a JSON object for people, or "" */
	uint32_t	inputs_count;
	uint32_t	outputs_count;
	struct infer_tensor *inputs;
	struct infer_tensor *outputs;
	uint32_t	classes_count;		/* 0: not known */
	char	  **classes;			/* labels as text */
	uint32_t	features_count;		/* 0: the file names none */
	char	  **features;			/* names of the elements of a single wide input, in order */
};

#define INFER_SIGNATURE_ROW_BY_ROW	1u	/* has an operator without a row rule, or a fixed batch */

extern void infer_put_signature(struct infer_writer *w, const struct infer_signature *signature);

/*
 * Decodes into memory from alloc(arg, bytes), which may not fail (it may longjmp).
 * Returns 0, or -1 if the bytes are malformed (counts over the limits included).
 */
extern int	infer_get_signature(struct infer_reader *r, struct infer_signature *out,
								void *(*alloc) (void *arg, size_t bytes), void *arg);

/* ---- checks that both halves and the tests share ---- */

/* bytes of one element; 0 for strings and unknown types */
extern size_t infer_type_bytes(uint32_t type);

/* elements of one row of a tensor whose dimensions have been checked, or INFER_WIDTH_VARIES */
extern uint64_t infer_tensor_width(const struct infer_tensor *tensor);

/* NULL if a tensor's dimensions (rank of them, -1 varies) multiply without overflow, else what is wrong */
extern const char *infer_dims_check(const int64_t *dims, uint32_t rank);

/* NULL if the header is acceptable, else what is wrong with it */
extern const char *infer_frame_check(const struct infer_frame *frame);

/*
 * NULL if a column of rows rows, copied out of a region of region_bytes, lies wholly
 * inside it and is consistent; else what is wrong.  Says nothing of the contents:
 * spans and row ends are checked by whoever copies them out.
 */
extern const char *infer_column_check(const struct infer_column *column, uint64_t rows,
									  uint64_t region_bytes);

/* NULL if the request's own fields lie inside the region, else what is wrong. */
extern const char *infer_request_check(const struct infer_request *request, uint64_t region_bytes);

/* for messages: never NULL */
extern const char *infer_type_name(uint32_t type);
extern const char *infer_error_name(uint32_t error);

#endif							/* INFER_PROTOCOL_H */
