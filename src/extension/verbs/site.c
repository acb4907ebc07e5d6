/*
 * site.c
 *	  One call in a plan: what it asks, of models that its names mean, and what it counts.
 *
 * Invariants
 *	- A model is looked at anew, and the privilege checked, for each request (add.c): within a
 *	  statement the snapshot is the same, and so are the answers.
 *	- An asked is never freed while rows refer to it; nor from a reset callback: contexts of a plan
 *	  are deleted in no certain order.  Entries of the memo, and what counts references, lie in the
 *	  site's own context, which outlives the contexts below it.
 *	- Rows that outlive their site find out by its callback.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "many.h"

#define ROWS_BYTES_MAX	(8u << 20)	/* of one request, if more than one row */
#define BYTE_NSEC		1			/* of weights, for a row of a model never timed: each is used 100 times */
#define UNTIMED_NSEC	UINT64CONST(10000000000)	/* that a request may take by that guess */
#define CERTAIN_NSEC	100000000	/* a request that took so long is believed at once */
#define TEXT_NSEC		UINT64CONST(500000000)		/* that texts of one request may take */
#define TOKEN_BYTES		4			/* of text, by that guess */
#define TOKEN_USES		100
#define SLICE_CPU		10000		/* usec; infer.slice = 0, as in the engine */
#define SLICE_CUDA		2000

/* The site goes, and rows are left. */
static void
site_gone(void *arg)
{
	InferSite  *site = arg;
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &site->rows)
	{
		InferRows  *rows = dlist_container(InferRows, link, iter.cur);

		rows->site = NULL;
	}
}

/* The type of the one input, if that is a row whose columns come one by one. */
static Oid
find_row_type(const InferVerbDef *def, const FuncExpr *call)
{
	const RowExpr *row;

	if (call->funcvariadic || def->inputs_count > 0 || list_length(call->args) != def->inputs_first + 1)
		return InvalidOid;
	row = llast(call->args);
	return IsA(row, RowExpr) && row->row_typeid != RECORDOID ? row->row_typeid : InvalidOid;
}

static InferSite *
make_site(const InferVerbDef *def, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "infer site", ALLOCSET_DEFAULT_SIZES);
	InferSite  *site = MemoryContextAllocZero(context, sizeof(InferSite));

	site->def = def;
	site->context = context;
	dlist_init(&site->rows);
	site->callback.func = site_gone;
	site->callback.arg = site;
	MemoryContextRegisterResetCallback(context, &site->callback);
	return site;
}

InferSite *
infer_site_make_texts(const InferVerbDef *def, MemoryContext context)
{
	InferSite  *site = make_site(def, context);

	site->inputs_count = def->inputs_count;
	site->types = MemoryContextAlloc(site->context, sizeof(Oid) * site->inputs_count);
	for (int i = 0; i < site->inputs_count; i++)
		site->types[i] = TEXTOID;
	return site;
}

InferSite *
infer_site_make(const InferVerbDef *def, const FuncExpr *call, MemoryContext context)
{
	InferSite  *site = make_site(def, context);

	site->call = call;
	site->variadic = call->funcvariadic;
	site->inputs_count = def->inputs_count > 0 ? def->inputs_count : list_length(call->args) - def->inputs_first;
	site->types = MemoryContextAlloc(site->context, sizeof(Oid) * Max(site->inputs_count, 1));
	for (int i = 0; i < site->inputs_count; i++)
		site->types[i] = exprType(list_nth(call->args, def->inputs_first + i));
	site->row_type = find_row_type(def, call);
	if (OidIsValid(site->row_type))
		site->row_width = list_length(((RowExpr *) llast(call->args))->args);
	return site;
}

int
infer_site_row_argument(const InferSite *site)
{
	return OidIsValid(site->row_type) ? site->def->inputs_first : -1;
}

void
infer_site_count_tokens(InferSite *site)
{
	Assert(site->rows_last == 0 && site->def->verb >= INFER_VERB_EMBED);
	site->counts_tokens = true;
}

void
infer_site_counters(const InferSite *site, InferSiteCounters *counters)
{
	*counters = site->counters;
}

/* ---- what it asks ---- */

static void
forget(InferSite *site, int i)
{
	site->asked[i]->forgotten = true;
	site->asked[i] = site->asked[--site->asked_count];
}

/* Frees what was forgotten and is not used any more. */
static void
sweep(InferSite *site)
{
	SiteAsked **link = &site->all;

	while (*link != NULL)
	{
		SiteAsked  *asked = *link;

		if (!asked->forgotten || asked->users > 0)
		{
			link = &asked->next;
			continue;
		}
		*link = asked->next;
		MemoryContextDelete(asked->asked->context);
		pfree(asked);
	}
}

/* The number of the one used longest ago, or of the one used last. */
static int
by_use(const InferSite *site, bool last)
{
	int			found = 0;

	for (int i = 1; i < site->asked_count; i++)
		if ((site->asked[i]->used_at < site->asked[found]->used_at) != last)
			found = i;
	return found;
}

static VerbAsked *
ask(InferSite *site, const char *name, int length, const VerbArguments *arguments)
{
	Oid		   *types = site->types;
	MemoryContext old = MemoryContextSwitchTo(site->context);
	VerbAsked  *asked;

	if (OidIsValid(arguments->element))
	{
		types = palloc(sizeof(Oid) * arguments->count);
		for (int i = 0; i < arguments->count; i++)
			types[i] = arguments->element;
	}
	asked = verb_ask(site->def->verb, name, length, arguments->count, arguments->element, types, site->row_type);
	if (types != site->types)
		pfree(types);
	MemoryContextSwitchTo(old);
	return asked;
}

static SiteAsked *
add(InferSite *site, VerbAsked *asked)
{
	SiteAsked  *entry = MemoryContextAllocZero(site->context, sizeof(SiteAsked));

	entry->asked = asked;
	entry->id = ++site->asked_last;
	entry->next = site->all;
	site->all = entry;
	if (site->asked_count == SITE_ASKED_MAX)
		forget(site, by_use(site, false));
	site->asked[site->asked_count++] = entry;
	return entry;
}

SiteAsked *
site_ask(InferSite *site, const char *name, int length, const VerbArguments *arguments, bool may_resolve)
{
	SiteAsked  *entry = NULL;

	for (int i = 0; i < site->asked_count && entry == NULL; i++)
	{
		if (!verb_asks(site->asked[i]->asked, name, length, arguments->count, arguments->element))
			continue;
		if (infer_model_current(site->asked[i]->asked->model))
			entry = site->asked[i];
		else
		{
			if (!may_resolve)
				return NULL;
			forget(site, i);
			break;
		}
	}
	if (entry == NULL)
	{
		if (!may_resolve)
			return NULL;
		sweep(site);
		entry = add(site, ask(site, name, length, arguments));
	}
	verb_check_usage(entry->asked);
	entry->used_at = ++site->clock;
	return entry;
}

const Bitmapset *
infer_site_row_columns(InferSite *site, bool *known)
{
	const Const *name = linitial(site->call->args);
	VerbArguments arguments = {.count = site->inputs_count};
	MemoryContext old;
	SiteAsked  *entry;
	text	   *text_name;

	*known = false;
	if (!OidIsValid(site->row_type) || !IsA(name, Const) || name->constisnull)
		return NULL;
	text_name = DatumGetTextPP(name->constvalue);
	entry = site_ask(site, VARDATA_ANY(text_name), VARSIZE_ANY_EXHDR(text_name), &arguments, true);
	*known = true;
	if (entry->columns == NULL)
	{
		old = MemoryContextSwitchTo(entry->asked->context);
		entry->columns = infer_binding_columns(entry->asked->binding);
		MemoryContextSwitchTo(old);
	}
	return entry->columns;
}

/* ---- how many rows ---- */

/* Bytes that one request of several rows may take. */
static uint64
bytes_max(void)
{
	return Min(ROWS_BYTES_MAX, (uint64) infer_payload_limit * 1024 / 4);
}

/* usec */
static uint64
slice(const InferSite *site)
{
	if (infer_slice > 0)
		return infer_slice;
	return strncmp(site->counters.device, "cuda", 4) == 0 ? SLICE_CUDA : SLICE_CPU;
}

/*
 * infer.timeout is a request's, so one of many slow rows could miss it where each row would not: a
 * large model's first requests are short.  What a request takes whatever its rows are is told from
 * the smallest and the largest one so far: where that is longer than a slice, fewer rows do not
 * help, and theirs may take another one, as in the engine.
 */
static uint64
rows_by_time(const InferSite *site, const InferModel *model)
{
	uint64		bound = slice(site) * 1000;
	uint64		row_nsec = site->row_nsec;
	uint64		fixed_nsec = 0;

	if (row_nsec == 0)
		return UNTIMED_NSEC / (model->signature.bytes * BYTE_NSEC + 1);
	if (site->many.rows > site->few.rows)
	{
		row_nsec = (site->many.nsec - Min(site->many.nsec, site->few.nsec)) / (site->many.rows - site->few.rows);
		fixed_nsec = site->few.nsec - Min(site->few.nsec, row_nsec * site->few.rows);
	}
	return (bound > fixed_nsec ? bound - fixed_nsec : bound) / (row_nsec + 1);
}

static void
learn_size(SiteRequest *request, bool other_size, uint32 rows, uint64 nsec)
{
	if (request->rows == 0 || other_size)
		*request = (SiteRequest) {.rows = rows, .nsec = nsec};
	else if (rows == request->rows)
		request->nsec = Min(request->nsec, nsec);
}

static bool
reads_texts(const InferModel *model)
{
	for (uint32 i = 0; i < model->signature.inputs_count; i++)
		if (model->signature.inputs[i].role == INFER_ROLE_TEXT)
			return true;
	return false;
}

/*
 * Texts are as different in length as in time, so a request of them is bounded by its bytes.  It may
 * take longer than a slice: the engine cuts it into batches and segments of its own, and needs tokens
 * enough to choose from.  A request of long texts is far below infer.timeout.
 */
static uint64
text_bytes_by_time(const InferSite *site, const InferModel *model)
{
	if (site->byte_psec == 0)
		return UNTIMED_NSEC / (model->signature.bytes * BYTE_NSEC / TOKEN_USES / TOKEN_BYTES + 1);
	return TEXT_NSEC * 1000 / site->byte_psec;
}

uint32
site_rows_room(const InferSite *site, const SiteAsked *asked, uint32 rows, uint32 class_)
{
	const InferModel *model = asked->asked->model;
	uint64		room = bytes_max() / (infer_client_rows_bytes(model, 1) + 1);

	if (class_ != INFER_CLASS_JOB && !reads_texts(model))
		room = Min(room, rows_by_time(site, model));
	return Max(Min(rows, room), 1);
}

uint64
site_bytes_room(const InferSite *site, const SiteAsked *asked, uint32 class_)
{
	const InferModel *model = asked->asked->model;

	return class_ != INFER_CLASS_JOB && reads_texts(model) ? Min(bytes_max(), text_bytes_by_time(site, model)) : bytes_max();
}

int
infer_site_batch_rows(const InferSite *site, int rows_max)
{
	int			rows = Min(Min(rows_max, infer_batch_rows), INFER_ROWS_MAX);

	if (site->asked_count > 0)
		rows = site_rows_room(site, site->asked[by_use(site, true)], rows, INFER_CLASS_STATEMENT);
	return Max(rows, 1);
}

static void
count(InferSite *site, const InferCall *call)
{
	uint64		queue_nsec;
	uint64		device_nsec;

	infer_client_times(call, &queue_nsec, &device_nsec);
	site->counters.prepare_nsec += infer_client_prepare_nsec(call);
	site->counters.queue_nsec += queue_nsec;
	site->counters.device_nsec += device_nsec;
	site->counters.tokens += infer_client_tokens(call);
	if (*infer_client_device() != '\0')
		strlcpy(site->counters.device, infer_client_device(), sizeof(site->counters.device));
}

/*
 * One request says little: it may have met a first touch, or a thread that had to wait for a core.
 * The best of the last few is believed.
 */
static void
learn_row(InferSite *site, uint32 rows, uint64 nsec)
{
	uint64		best = nsec / rows + 1;

	site->nsec[site->nsec_count++ % SITE_TIMES] = best;
	learn_size(&site->few, rows < site->few.rows, rows, nsec);
	learn_size(&site->many, rows > site->many.rows, rows, nsec);
	if (site->nsec_count < SITE_TIMES && nsec < CERTAIN_NSEC)
		return;
	for (int k = 0; k < Min(site->nsec_count, SITE_TIMES); k++)
		best = Min(best, site->nsec[k]);
	site->row_nsec = best;
	if (site->memo != NULL)
		memo_learn(site->memo, best);
}

static void
learn_byte(InferSite *site, uint64 bytes, uint64 nsec)
{
	uint64		psec = nsec * 1000 / (bytes + 1) + 1;

	site->byte_psec = site->byte_psec == 0 ? psec : Min(psec, site->byte_psec + site->byte_psec / 4);
}

void
site_learn(InferSite *site, const InferCall *call, uint32 rows, uint64 bytes)
{
	uint64		queue_nsec;
	uint64		nsec;

	count(site, call);
	infer_client_times(call, &queue_nsec, &nsec);
	nsec += infer_client_prepare_nsec(call);
	learn_row(site, rows, nsec);
	learn_byte(site, bytes, nsec);
}
