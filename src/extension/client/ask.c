/*
 * ask.c
 *	  Load, unload, statistics: one frame there, one frame back.
 *
 * A LOAD may make its asker the one writer of the model's files (NEED_FILES).  A writer
 * that fails says so by UNLOAD; one that was interrupted while it waited closes the
 * connection: either way the engine asks the next.
 *
 * A load may be asked for outside of any transaction (preload/ does): what reads the
 * catalogue then has a transaction of its own, which ends before the engine is waited for.
 */
#include "postgres.h"

#include "internal.h"

#include <unistd.h>

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define LOAD_WRITES_MAX 3			/* times that the files vanish again before we give up */
#define ASKS_MAX 3					/* engines more that are asked, if one ends before it answers */
#define LOAD_DEATHS_MAX 2			/* engines that a load may end before it is guilty */

typedef struct Load					/* the frame, and the descriptors that go with it */
{
	uint8	   *body;
	uint32		length;
	int			fds[INFER_FDS_MAX];
	int			fds_count;
} Load;

/* ---- reading the catalogue ---- */

/* Begin a transaction if there is none; end_reading ends it. */
static bool
begin_reading(void)
{
	MemoryContext context = CurrentMemoryContext;

	if (IsTransactionState())
		return false;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(context);
	return true;
}

static void
end_reading(bool begun)
{
	MemoryContext context = CurrentMemoryContext;

	if (!begun)
		return;
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
}

/* ---- the LOAD frame ---- */

static void
close_files(Load *load)
{
	for (int i = 0; i < load->fds_count; i++)
		close(load->fds[i]);
	load->fds_count = 0;
}

static void
put_files(Load *load, struct infer_writer *w, const InferModel *model)
{
	char	   *names[INFER_FDS_MAX];
	uint64		sizes[INFER_FDS_MAX];
	bool		begun = begin_reading();

	load->fds_count = infer_model_open_reference(model, names, sizes, load->fds, INFER_FDS_MAX);
	end_reading(begun);
	for (int i = 0; i < load->fds_count; i++)
	{
		infer_put_string(w, names[i], strlen(names[i]));
		infer_put_u64(w, sizes[i]);
	}
}

static void
make_load(Load *load, const InferModel *model, uint32 flags)
{
	const char *options = model->options ? model->options : "";
	struct infer_load head = {.flags = flags, .options_length = strlen(options)};
	Size		size = sizeof(head) + head.options_length + INFER_FDS_MAX * (12 + MAXPGPATH);
	struct infer_writer w = {palloc(size), size, 0, 0};

	memset(load, 0, sizeof(*load));
	memcpy(head.key, model->key, INFER_KEY_BYTES);
	memcpy(head.digest, model->digest, INFER_KEY_BYTES);
	head.model = model->server;
	head.version = model->version;
	head.role = GetUserId();
	infer_put_bytes(&w, &head, sizeof(head));
	infer_put_bytes(&w, options, head.options_length);
	if (model->reference != NULL)
	{
		put_files(load, &w, model);
		head.files_count = load->fds_count;
		memcpy(w.data, &head, sizeof(head));
	}
	if (w.failed || w.used > INFER_FRAME_MAX)
	{
		close_files(load);
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the options of model \"%s\" are too long", model->name)));
	}
	load->body = w.data;
	load->length = w.used;
}

/* Ask once.  Left by an error, it leaves no writer and no descriptor behind. */
static enum SleepEnd
ask_once(const InferModel *model, uint32 flags, uint64 deadline, Answer *answer)
{
	Load		load;
	enum SleepEnd end = SLEEP_LOST;

	make_load(&load, model, flags);
	PG_TRY();
	{
		end = connection_ask(INFER_FRAME_LOAD, load.body, load.length, load.fds, load.fds_count,
							 deadline, answer);
	}
	PG_CATCH();
	{
		close_files(&load);
		connection_close(true);
		PG_RE_THROW();
	}
	PG_END_TRY();
	close_files(&load);
	pfree(load.body);
	if (end == SLEEP_LATE)
		connection_close(true);
	return end;
}

/* Write the files, as the engine has told us to. */
static void
write_files(const InferModel *model)
{
	PG_TRY();
	{
		bool		begun = begin_reading();

		infer_model_materialise(model);
		end_reading(begun);
	}
	PG_CATCH();
	{
		connection_post(INFER_FRAME_UNLOAD, 0, 0, model->key, INFER_KEY_BYTES);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void *
allocate(void *context, size_t bytes)
{
	return MemoryContextAlloc(context, bytes);
}

/* The answer's signature, if anybody wants it. */
static bool
read_signature(const Answer *answer, struct infer_signature *signature, MemoryContext context,
			   struct infer_error_text *err)
{
	struct infer_reader reader = {answer->body, answer->length, 0, 0};

	if (signature == NULL || infer_get_signature(&reader, signature, allocate, context) == 0)
		return true;
	error_set(err, INFER_ERROR_PROTOCOL, "the engine's description of the model is malformed", NULL, NULL);
	return false;
}

static void
load_killed(const InferModel *model, struct infer_error_text *err)
{
	uint64		engine = connection.epoch;

	/* each engine counts: a model that ends one whenever it is loaded is soon disabled */
	guilty_record_load(model->key, hash_bytes_extended((unsigned char *) &engine, sizeof(engine), 1));
	error_set(err, INFER_CLIENT_LOST, "the inference engine ended while it loaded the model", NULL,
			  "Look into the server's log for the reason.");
}

bool
ask_load(const InferModel *model, uint32 flags, uint64 *deadline,
		 struct infer_signature *signature, MemoryContext context, struct infer_error_text *err)
{
	int			writes = 0;
	int			deaths = 0;
	uint64		blameless = *(volatile uint64 *) &infer_shared->engine_blameless;

	for (;;)
	{
		Answer		answer;
		enum SleepEnd end;
		uint64		begun;

		if (!connection_ready(*deadline, err))
			return false;
		end = ask_once(model, flags, *deadline, &answer);
		if (end == SLEEP_LATE)
		{
			error_set(err, INFER_ERROR_DEADLINE, "the model was not loaded within infer.timeout", NULL,
					  "Raise infer.timeout, and load the model before its first use with infer.load_model().");
			return false;
		}
		if (end == SLEEP_LOST)
		{
			uint64		before = blameless;

			blameless = *(volatile uint64 *) &infer_shared->engine_blameless;
			if (blameless != before || ++deaths < LOAD_DEATHS_MAX)
				continue;
			load_killed(model, err);
			return false;
		}
		if (answer.type == INFER_FRAME_LOADED)
			return read_signature(&answer, signature, context, err);

		answer_error(&answer, err);
		if (err->error == INFER_ERROR_INTERNAL && (flags & INFER_LOAD_WROTE) != 0 && writes < LOAD_WRITES_MAX)
		{
			/* the files have gone again, or whatever it was: ask like anybody, and hear which */
			flags &= ~INFER_LOAD_WROTE;
			err->error = INFER_OK;
			continue;
		}
		if (err->error != INFER_ERROR_NEED_FILES || model->reference != NULL || writes++ >= LOAD_WRITES_MAX)
			return false;
		begun = clock_nsec();
		write_files(model);
		if (*deadline != 0)
			*deadline += clock_nsec() - begun;
		flags |= INFER_LOAD_WROTE;
		err->error = INFER_OK;
	}
}

void
infer_client_load(const InferModel *model, uint32 flags, struct infer_signature *signature,
				  MemoryContext context)
{
	uint64		deadline = deadline_from_now(infer_timeout);
	struct infer_error_text err = {0};

	infer_require_preload();
	if (flags & INFER_LOAD_RETRY)
		guilty_forgive(model->key);
	if (!ask_load(model, flags, &deadline, signature, context, &err))
		infer_client_raise(&err);
}

/* ---- the others ---- */

/* An ask that any engine may answer: sent again if one ends before it answers. */
static void
ask_simply(uint16 type, const void *body, uint32 length, uint16 expected, Answer *answer)
{
	uint64		deadline = deadline_from_now(infer_timeout);
	struct infer_error_text err = {0};

	infer_require_preload();
	for (int attempt = 0;; attempt++)
	{
		enum SleepEnd end;

		if (!connection_ready(deadline, &err))
			infer_client_raise(&err);
		end = connection_ask(type, body, length, NULL, 0, deadline, answer);
		if (end == SLEEP_WOKEN && answer->type == expected)
			return;
		if (end == SLEEP_LOST && attempt < ASKS_MAX)
			continue;
		if (end == SLEEP_WOKEN)
			answer_error(answer, &err);
		else if (end == SLEEP_LATE)
			error_no_answer(&err);
		else
			error_set(&err, INFER_CLIENT_LOST, "the inference engine ended before it answered", NULL,
					  "Look into the server's log for the reason.");
		infer_client_raise(&err);
	}
}

void
infer_client_unload(const InferModel *model)
{
	struct infer_unload body;
	Answer		answer;

	memcpy(body.key, model->key, INFER_KEY_BYTES);
	ask_simply(INFER_FRAME_UNLOAD, &body, sizeof(body), INFER_FRAME_UNLOADED, &answer);
}

pg_noreturn static void
malformed(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the engine's %s malformed", what)));
}

/* An answer that is not complete says so. */
static void
left_out(uint32 count, const char *what)
{
	if (count > 0)
		ereport(WARNING,
				(errmsg("the engine's answer had no room for %u %s, which are not shown", count, what)));
}

/* The next entries of an answer behind those of the answers before. */
static void *
take_entries(struct infer_reader *reader, void *before, uint32 count, uint32 more, Size bytes)
{
	void	   *entries = before == NULL ? palloc(more * bytes + 1) : repalloc_huge(before, (count + (Size) more) * bytes + 1);
	const uint8_t *from = infer_get_bytes(reader, more * bytes);

	if (from == NULL)
		malformed("statistics are");
	memcpy((char *) entries + count * bytes, from, more * bytes);
	return entries;
}

/* Of a page: models and classes go behind those of the pages before. */
static void
take_page(const Answer *answer, EngineStats *stats)
{
	struct infer_stats_head head;
	struct infer_reader reader = {answer->body, answer->length, sizeof(head), 0};
	uint32		models = stats->head.models_count;
	uint32		classes = stats->head.classes_count;

	if (answer->length < sizeof(head))
		malformed("statistics are");
	memcpy(&head, answer->body, sizeof(head));
	stats->devices = take_entries(&reader, NULL, 0, head.devices_count, sizeof(*stats->devices));
	stats->models = take_entries(&reader, stats->models, models, head.models_count, sizeof(*stats->models));
	stats->classes = take_entries(&reader, stats->classes, classes, head.classes_count, sizeof(*stats->classes));
	if (reader.used != answer->length)
		malformed("statistics are");
	for (uint32 i = classes; i < classes + head.classes_count; i++)
	{
		if (stats->classes[i].model >= head.models_count || stats->classes[i].class_ >= INFER_CLASSES)
			malformed("statistics are");
		stats->classes[i].model += models;
	}
	head.models_count += models;
	head.classes_count += classes;
	head.left_out += stats->head.left_out;
	stats->head = head;
}

void
infer_client_stats(bool reset, EngineStats *stats)
{
	struct infer_stats_ask body = {.flags = reset ? 1 : 0};

	*stats = (EngineStats) {0};
	for (;;)
	{
		uint64		epoch = stats->head.epoch;
		Answer		answer;

		ask_simply(INFER_FRAME_STATS, &body, sizeof(body), INFER_FRAME_STATS_REPLY, &answer);
		take_page(&answer, stats);
		if (body.from != 0 && stats->head.epoch != epoch)
		{
			*stats = (EngineStats) {0};	/* another engine: from the beginning */
			body.from = 0;
			continue;
		}
		if (stats->head.next != 0 && stats->head.next <= body.from)
			malformed("statistics are");
		body.from = stats->head.next;
		if (body.from == 0 || reset)
			break;
	}

	/* names are texts: each ends inside its field */
	for (uint32 i = 0; i < stats->head.devices_count; i++)
	{
		struct infer_stats_device *device = &stats->devices[i];

		device->name[sizeof(device->name) - 1] = '\0';
		device->description[sizeof(device->description) - 1] = '\0';
		device->numerics_id[sizeof(device->numerics_id) - 1] = '\0';
		device->arch[sizeof(device->arch) - 1] = '\0';
		device->detail[sizeof(device->detail) - 1] = '\0';
	}
	left_out(stats->head.left_out, "models");
}

struct infer_activity *
infer_client_activity(int *count)
{
	struct infer_activity_head head;
	Answer		answer;

	ask_simply(INFER_FRAME_ACTIVITY, NULL, 0, INFER_FRAME_ACTIVITY_REPLY, &answer);
	if (answer.length < sizeof(head))
		malformed("list of calls is");
	memcpy(&head, answer.body, sizeof(head));
	if (sizeof(head) + (Size) head.count * sizeof(struct infer_activity) != answer.length)
		malformed("list of calls is");
	left_out(head.left_out, "calls");
	*count = head.count;
	return memcpy(palloc(answer.length), answer.body + sizeof(head), answer.length - sizeof(head));
}
