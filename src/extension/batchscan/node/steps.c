/*
 * steps.c
 *	  A batch's way from the child's rows to rows that can be handed out: waves of calls, and the
 *	  quals between them.
 *
 * Loop
 *	infer_batch_start fetches rows and adds them to the first wave's requests, until one is full,
 *	and sends these; infer_batch_finish waits for each wave, stores its results as columns,
 *	applies the qual of its stage, and sends the next one.
 */
#include "postgres.h"

#include "node.h"

/* ---- quals ---- */

/* RowStep */
static bool
check_qual(InferBatchState *node, Batch *batch, int qual, int row)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	ResetExprContext(econtext);
	infer_batch_load(node, batch, row);
	batch->removed[row] = !ExecQual(node->quals[qual].expression, econtext);
	return true;
}

static void
apply_qual(InferBatchState *node, Batch *batch, int qual)
{
	RowLoop		loop = {.step = check_qual, .what = qual, .stage = -1, .last = batch->live_count,
		.protect = node->quals[qual].protect};
	int			kept = 0;

	for (int i = 0; i < batch->live_count; i++)
		batch->removed[batch->live[i]] = false;
	infer_batch_run_rows(node, batch, &loop);
	for (int i = 0; i < batch->live_count; i++)
	{
		int			row = batch->live[i];

		if (batch->removed[row])
			InstrCountFiltered1(node, 1);
		else
			batch->live[kept++] = row;
	}
	batch->live_count = kept;
}

/* ---- waves ---- */

/* Asks for a wave's calls, from the live row at *place on; where it stopped stays there. */
static bool
ask_rows(InferBatchState *node, Batch *batch, int wave, int *place)
{
	RowLoop		loop = {.step = infer_batch_ask_wave, .what = wave, .stage = node->wave_stage[wave],
		.place = *place, .last = batch->live_count, .protect = node->wave_protect[wave]};
	bool		whole = infer_batch_run_rows(node, batch, &loop);

	*place = loop.place;
	return whole;
}

/* ---- rounds ---- */

static void
begin_round(InferBatchState *node, Batch *batch)
{
	for (int i = 0; i < node->calls_count; i++)
		batch->calls[i].constant_row = -1;
	batch->live_count = 0;
	batch->next = 0;
}

/* Adds rows [first, rows_count) to the first wave; false: the round ends before the last of them. */
static bool
add_first_wave(InferBatchState *node, Batch *batch, int first)
{
	int			place = batch->live_count;

	for (int row = first; row < batch->rows_count; row++)
		batch->live[batch->live_count++] = row;
	if (ask_rows(node, batch, 0, &place))
	{
		batch->end = batch->rows_count;
		return true;
	}
	batch->end = batch->live[place];
	batch->live_count = place;
	return false;
}

static int
most_tickets(const InferBatchState *node, const Batch *batch)
{
	int			most = 0;

	for (int i = 0; batch->calls != NULL && i < node->calls_count; i++)
		if (node->calls[i].wave == 0)
			most = Max(most, batch->calls[i].open_count);
	return most;
}

bool
infer_batch_start(InferBatchState *node, Batch *batch)
{
	int			rows_max = node->ramp;

	infer_batch_clear(batch);
	for (;;)
	{
		int			first = batch->rows_count;
		int			wanted = rows_max - most_tickets(node, batch);

		if (node->by_rows)
			wanted = Min(wanted, rows_max - first);
		if (wanted <= 0 || infer_batch_fetch(node, batch, wanted) == 0)
			break;
		infer_batch_make_calls(node, batch);
		if (first == 0)
			begin_round(node, batch);
		if (!add_first_wave(node, batch, first))
			break;
	}
	if (batch->rows_count == 0)
		return false;
	infer_batch_send_wave(node, batch, 0);
	return true;
}

bool
infer_batch_restart(InferBatchState *node, Batch *batch)
{
	if (batch->end == batch->rows_count)
		return false;
	begin_round(node, batch);
	batch->begin = batch->end;
	add_first_wave(node, batch, batch->begin);
	infer_batch_send_wave(node, batch, 0);
	return true;
}

void
infer_batch_finish(InferBatchState *node, Batch *batch)
{
	int			wave = 0;

	for (int stage = 0; stage <= node->quals_count; stage++)
	{
		for (; wave < node->waves && node->wave_stage[wave] == stage; wave++)
		{
			int			place = 0;

			if (wave > 0)
			{
				ask_rows(node, batch, wave, &place);
				infer_batch_send_wave(node, batch, wave);
			}
			infer_batch_take_wave(node, batch, wave);
		}
		if (stage < node->quals_count)
			apply_qual(node, batch, stage);
	}
}
