/*
 * engine.h
 *	  The running engine: what its threads share, and who may touch what.
 *
 * Nouns
 *	loop		the thread that reads sockets, regions and the control pipe
 *	runner		a thread that runs batches which the loop does not run itself: as many as there are lanes
 *	lane		one of the device's queues, with the batches that are on it: scheduler/lane.h
 *	loader		the thread that opens, checks and closes models
 *	preparers	the threads that turn texts into tokens before their requests are queued
 *	connection	a client: its socket, its regions
 *	region		one payload mapping; holds the one request that may be in flight in it
 *	request		what a region was submitted with, copied and validated
 *	entry		a model key that somebody has asked to load, with its queue and counters
 *	asker		a connection that waits for the answer to a LOAD or UNLOAD
 *
 * Locks
 *	engine.lock		entries, askers, queues, the state of requests, counters, reloadable
 *					settings.  Never held while a model computes, opens or closes, nor
 *					while a frame is sent to a client that was rung.
 *	connection.out_lock	the socket's writing side and the out-buffer.  A leaf: nothing is
 *					locked under it.
 *	Everything else of connections and regions is the loop's alone, except: a region
 *	with a request in flight is used by whoever runs the batch, and request->in_flight
 *	is the hand-over (stored before done_seq is published, see region.c).
 *
 * Lifetimes
 *	A connection is counted: one reference is the loop's, one each request's in flight and
 *	each asker's.  The last one unmaps its regions.  A request in flight therefore keeps
 *	its mapping when its client has gone.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../protocol/protocol.h"
#include "device.h"
#include "model/files.h"
#include "model/model.h"
#include "process/settings.h"
#include "scheduler/latency.h"
#include "scheduler/policy/batch.h"
#include "scheduler/prepare.h"
#include "statistics/counters.h"
#include "statistics/request_log.h"
#include "status.h"

#define ENGINE_BUCKETS		1024
#define ENGINE_ENTRIES_MAX	8192
#define ENGINE_LOADS_MAX	1024		/* that wait for the loader */
#define ENGINE_INLINE_NSEC	200000	/* a batch predicted to be shorter runs on the loop */
#define ENGINE_LANES_MAX	16

struct connection;
struct engine;
struct region;
struct runner;

struct request
{
	struct batch_request batch;		/* first: the policy hands this back */
	struct region *region;
	struct entry *entry;
	uint64_t	seq;				/* submit_seq */
	uint32_t	flags;				/* INFER_REQUEST_* */
	bool		in_flight;			/* atomic: written with the lock held, read by the loop */
	bool		laid_out;			/* checked against the signature, reply laid out */
	struct model_request work;

	/* scheduler/prepare.h */
	enum request_stage stage;
	bool		unwanted;			/* atomic: cancelled while it is prepared */
	struct preparer *preparer;		/* whom it waits for, and its place there */
	struct request *stage_next;
	struct request *stage_prev;
	uint64_t	prepare_after;		/* nsec: in whose order */

	struct infer_column *columns;	/* columns_room of them; grown at admission, kept */
	struct infer_column *outputs;	/* outputs_room of them; likewise */
	uint32_t	columns_room;
	uint32_t	outputs_room;
	uint64_t	reply_offset;

	/* for the reply */
	uint64_t	queue_nsec;
	uint64_t	compute_nsec;
	uint64_t	prepare_nsec;
	uint64_t	tokens;				/* of the rows that were computed */
	uint32_t	batches;
	uint32_t	batch_rows;
	uint32_t	rows_failed;
	uint32_t	turns;				/* batches that run and have rows of it */
	bool		turns_alone;		/* atomic: there was no second one since there was none */
	uint64_t	reply_mark;			/* of the one: reply_used and overflow_bytes before the run that goes on */
	uint64_t	overflow_mark;

	/* for display */
	uint64_t	began;				/* nsec: its last batch */
	uint32_t	role;
	uint32_t	model;				/* oid of the foreign server */
	uint32_t	version;
};

struct region
{
	struct connection *connection;
	struct region *next;			/* loop: all regions, most recently used first */
	struct region *prev;
	struct infer_region *map;
	uint64_t	size;
	uint64_t	seen;				/* loop: the submit_seq taken last */
	uint64_t	used_at;			/* loop: nsec */
	uint32_t	slot;
	struct request request;
};

struct ring							/* RESULT or CANCELLED, to be sent without the lock */
{
	struct connection *connection;	/* counted */
	bool		wanted;				/* otherwise only the reference is given up */
	bool		cancelled;
	uint32_t	slot;
	uint32_t	generation;
};

#define OUTBOX_RINGS	(2 * BATCH_SLICES_MAX)

struct outbox						/* outbox.h; lock held */
{
	int			event_fd;			/* readable while the loop is to look */
	bool		woken;				/* it has been told, or is about to be */
	uint32_t	count;
	struct ring rings[OUTBOX_RINGS];
};

struct asker
{
	struct asker *next;
	struct connection *connection;	/* counted */
	uint64_t	request;			/* number of its frame */
	uint32_t	flags;				/* INFER_LOAD_* */

	/* for display */
	uint64_t	since;				/* nsec */
	uint32_t	role;
	uint32_t	model;				/* oid of the foreign server */
	uint32_t	version;
};

struct load_job						/* owned by the loader once queued */
{
	struct load_job *next;
	struct entry *entry;			/* NULL: only check, and answer asker */
	struct asker *asker;
	uint8_t		key[INFER_KEY_BYTES];
	uint8_t		digest[INFER_KEY_BYTES];
	char	   *options;
	uint32_t	flags;				/* INFER_LOAD_* */
	uint32_t	files_count;		/* by reference */
	char	  **names;
	uint64_t   *sizes;
	int		   *fds;
};

enum entry_packed					/* the model's packed form */
{
	ENTRY_PACKED_NONE = 0,			/* not kept, or not worth it */
	ENTRY_PACKED_WANTED,			/* the loader writes it when it has nothing else to do, or closes the model */
	ENTRY_PACKED_WRITTEN,
	ENTRY_PACKED_READ				/* the model came from it */
};

struct close_job					/* a model that the loader is to close */
{
	struct close_job *next;
	uint8_t		key[INFER_KEY_BYTES];
	bool		packed_wanted;		/* its packed form is to be written first */
	struct model *model;
	struct model_files files;
	struct asker *askers;			/* of UNLOAD */
};

struct entry
{
	struct batch_model queue;		/* first: the policy hands this back */
	struct entry *next;				/* in its bucket */
	uint8_t		key[INFER_KEY_BYTES];
	uint32_t	state;				/* enum infer_model_state; 0: known by name only */
	struct model *model;			/* while LOADED, and EVICTED until drained */
	struct model_files files;
	uint32_t	packed;				/* enum entry_packed, while it has a model */
	bool		from_cache;			/* the last load read the packed form */
	uint64_t	load_nsec;			/* that the last load took: files, sums, packing */
	struct status *failure;			/* while FAILED */
	struct latency latency;
	struct latency_errors latency_errors;
	uint64_t	measured;			/* batches, since it was loaded */
	uint64_t	prior_batch;		/* nsec: of a batch's constant part, by the model's own prediction */

	/* loading */
	bool		loading;			/* the loader has a job for it */
	struct close_job *closing;		/* made with the model, used when it goes */
	struct asker *askers;			/* wait for LOADED, in order of arrival */
	struct connection *writer;		/* counted: was told to write the files */
	uint64_t	writer_until;		/* nsec: then the next asker is told too */
	struct asker *unloaders;		/* wait for UNLOADED */

	uint32_t	pending;			/* requests not yet ended */
	uint64_t	last_used;			/* nsec */

	uint64_t	bytes;
	uint64_t	loaded_at;			/* CLOCK_REALTIME usec */
	uint64_t	last_ran;			/* nsec, when a batch of it began; 0: never */

	/* since the last reset: counters.h */
	uint64_t	batches;
	struct class_counters classes[INFER_CLASSES];
	uint64_t	segments;			/* that batches ran in */
	uint64_t	interrupted;		/* how often another batch ran between two of them */
	uint64_t	segments_long;		/* longer than a slice by prediction */
};

struct turn							/* a batch on the device; of whoever has its lane */
{
	struct batch batch;
	struct model_slice slices[BATCH_SLICES_MAX];	/* of the batch */
	struct model_slice parts[BATCH_SLICES_MAX];		/* of a part of it, if it failed */
	struct engine *engine;
	struct lane *lane;
	struct runner *runner;
	struct model_yield yield;
	uint32_t	interrupted;		/* since the last segment */
	uint64_t	predicted;			/* nsec */
	uint64_t	began;				/* nsec: the segment */
	uint64_t	nsec;				/* device time of the segments before */
};

struct lane
{
	struct device_queue *queue;
	struct busy_clock *unit;
	bool		taken;				/* nobody else may enqueue */
	bool		silent;				/* since the page's last beat */
	uint64_t	ends;				/* nsec: what is on it, by prediction */
	struct turn turns[BATCH_DEPTH];	/* a batch, and those that interrupt it */
};

struct engine
{
	pthread_mutex_t lock;
	pthread_cond_t work;			/* for the runners: there may be a batch for one of them */
	pthread_cond_t loads;			/* for the loader */
	pthread_cond_t closed;			/* from the loader: a model has been closed */

	struct settings settings;
	struct infer_status_page *page;	/* written with the lock held, but for beats and awake */
	int			page_fd;			/* for WELCOME */
	const char *cache;				/* path of the model cache, NULL: none */
	uint64_t	epoch;				/* CLOCK_REALTIME usec */
	uint64_t	since;				/* of the counters: CLOCK_REALTIME usec */
	uint64_t	counted_from;		/* the same moment, CLOCK_MONOTONIC nsec */
	uint32_t	cores;				/* usable */

	struct device *device;
	struct device_info info;		/* as at the start */
	struct status passed_over;		/* why it is not the CUDA device, where infer.device is auto */

	struct batch_policy policy;
	struct prepare prepare;
	struct lane *lanes;				/* lanes_count, as long as the engine runs */
	uint32_t	lanes_count;
	uint32_t	lanes_taken;
	bool		alone;				/* a marked row has the device: no other lane begins */
	struct busy_clock units[ENGINE_LANES_MAX];	/* units_count */
	uint32_t	units_count;
	uint64_t	busy_before;		/* nsec that they were busy before the last reset, in sum */
	struct outbox outbox;
	uint32_t	batches_refused;	/* atomic: of which the device took nothing, since it last did */

	struct entry *buckets[ENGINE_BUCKETS];
	uint32_t	entries_count;
	struct load_job *load_first;
	struct load_job **load_last;
	uint32_t	loads_count;
	struct close_job *close_first;

	uint64_t	regions_bytes;		/* atomic: mapped payload */
	uint32_t	connections;		/* atomic */
	struct request_log request_log;
};

#endif							/* ENGINE_ENGINE_H */
