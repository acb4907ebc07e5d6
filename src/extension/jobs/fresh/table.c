/*
 * table.c
 *	  infer.fresh as structs; written and read as jobs/tables/ does with its own.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "../tables/tables.h"
#include "fresh.h"

enum								/* columns of infer.fresh */
{
	Anum_fresh_fresh = 1,
	Anum_fresh_owner,
	Anum_fresh_owner_name,
	Anum_fresh_table,
	Anum_fresh_model_id,
	Anum_fresh_model_version,
	Anum_fresh_input_names,
	Anum_fresh_verb,
	Anum_fresh_class,
	Anum_fresh_options,
	Anum_fresh_priority,
	Anum_fresh_search_path,
	Anum_fresh_time_zone,
	Anum_fresh_date_order,
	Anum_fresh_job,
	Anum_fresh_job_before,
	Natts_fresh = Anum_fresh_job_before
};

bool
fresh_lock(int64 number, bool wait)
{
	return tables_lock("fresh", number, wait);
}

int64
fresh_next_number(void)
{
	return nextval_internal(infer_relation_oid("fresh_id"), false);
}

/* ---- rows ---- */

static void
set_text(Datum *values, bool *nulls, int attribute, const char *text)
{
	nulls[attribute - 1] = text == NULL;
	values[attribute - 1] = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

static Datum
names_to_array(List *names)
{
	Datum	   *texts = palloc(sizeof(Datum) * Max(list_length(names), 1));
	int			count = 0;
	ListCell   *lc;

	foreach(lc, names)
		texts[count++] = CStringGetTextDatum((char *) lfirst(lc));
	return PointerGetDatum(construct_array(texts, count, TEXTOID, -1, false, TYPALIGN_INT));
}

static List *
names_from_array(ArrayType *array)
{
	List	   *names = NIL;
	Datum	   *texts;
	int			count;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &texts, NULL, &count);
	for (int i = 0; i < count; i++)
		names = lappend(names, TextDatumGetCString(texts[i]));
	return names;
}

static HeapTuple
form(Relation table, const Fresh *fresh)
{
	Datum		values[Natts_fresh] = {0};
	bool		nulls[Natts_fresh] = {false};

	values[Anum_fresh_fresh - 1] = Int64GetDatum(fresh->number);
	values[Anum_fresh_owner - 1] = ObjectIdGetDatum(fresh->owner);
	set_text(values, nulls, Anum_fresh_owner_name, fresh->owner_name);
	values[Anum_fresh_table - 1] = ObjectIdGetDatum(fresh->table);
	nulls[Anum_fresh_table - 1] = !OidIsValid(fresh->table);
	values[Anum_fresh_model_id - 1] = UUIDPGetDatum(&fresh->model_id);
	values[Anum_fresh_model_version - 1] = Int32GetDatum(fresh->model_version);
	nulls[Anum_fresh_model_version - 1] = fresh->model_version == 0;
	values[Anum_fresh_input_names - 1] = names_to_array(fresh->input_names);
	set_text(values, nulls, Anum_fresh_verb, fresh->verb);
	set_text(values, nulls, Anum_fresh_class, fresh->class_);
	values[Anum_fresh_options - 1] = JsonbPGetDatum(fresh->options);
	values[Anum_fresh_priority - 1] = Int32GetDatum(fresh->priority);
	set_text(values, nulls, Anum_fresh_search_path, fresh->search_path);
	set_text(values, nulls, Anum_fresh_time_zone, fresh->time_zone);
	set_text(values, nulls, Anum_fresh_date_order, fresh->date_order);
	values[Anum_fresh_job - 1] = Int64GetDatum(fresh->job);
	nulls[Anum_fresh_job - 1] = fresh->job == 0;
	values[Anum_fresh_job_before - 1] = Int64GetDatum(fresh->job_before);
	nulls[Anum_fresh_job_before - 1] = fresh->job_before == 0;
	return heap_form_tuple(RelationGetDescr(table), values, nulls);
}

static Fresh *
deform(Relation table, HeapTuple tuple)
{
	Fresh	   *fresh = palloc0(sizeof(Fresh));
	Datum		values[Natts_fresh];
	bool		nulls[Natts_fresh];

#define TEXT(attribute) (nulls[(attribute) - 1] ? NULL : TextDatumGetCString(values[(attribute) - 1]))
	heap_deform_tuple(tuple, RelationGetDescr(table), values, nulls);
	fresh->number = DatumGetInt64(values[Anum_fresh_fresh - 1]);
	fresh->owner = DatumGetObjectId(values[Anum_fresh_owner - 1]);
	fresh->owner_name = TEXT(Anum_fresh_owner_name);
	fresh->table = nulls[Anum_fresh_table - 1] ? InvalidOid : DatumGetObjectId(values[Anum_fresh_table - 1]);
	fresh->model_id = *DatumGetUUIDP(values[Anum_fresh_model_id - 1]);
	fresh->model_version = nulls[Anum_fresh_model_version - 1] ? 0 : DatumGetInt32(values[Anum_fresh_model_version - 1]);
	fresh->input_names = names_from_array(DatumGetArrayTypeP(values[Anum_fresh_input_names - 1]));
	fresh->verb = TEXT(Anum_fresh_verb);
	fresh->class_ = TEXT(Anum_fresh_class);
	fresh->options = DatumGetJsonbPCopy(values[Anum_fresh_options - 1]);
	fresh->priority = DatumGetInt32(values[Anum_fresh_priority - 1]);
	fresh->search_path = TEXT(Anum_fresh_search_path);
	fresh->time_zone = TEXT(Anum_fresh_time_zone);
	fresh->date_order = TEXT(Anum_fresh_date_order);
	fresh->job = nulls[Anum_fresh_job - 1] ? 0 : DatumGetInt64(values[Anum_fresh_job - 1]);
	fresh->job_before = nulls[Anum_fresh_job_before - 1] ? 0 : DatumGetInt64(values[Anum_fresh_job_before - 1]);
	fresh->tid = tuple->t_self;
#undef TEXT
	return fresh;
}

void
fresh_insert(const Fresh *fresh)
{
	Relation	table = table_open(infer_relation_oid("fresh"), RowExclusiveLock);

	CatalogTupleInsert(table, form(table, fresh));
	table_close(table, NoLock);
	CommandCounterIncrement();
}

void
fresh_update(Fresh *fresh)
{
	Relation	table = table_open(infer_relation_oid("fresh"), RowExclusiveLock);
	HeapTuple	tuple = form(table, fresh);

	CatalogTupleUpdate(table, &fresh->tid, tuple);
	fresh->tid = tuple->t_self;
	table_close(table, NoLock);
	CommandCounterIncrement();
}

void
fresh_delete(Fresh *fresh)
{
	Relation	table = table_open(infer_relation_oid("fresh"), RowExclusiveLock);

	CatalogTupleDelete(table, &fresh->tid);
	table_close(table, NoLock);
	CommandCounterIncrement();
}

/* Latest rows: of that number, or all (0). */
static List *
read_rows(int64 number)
{
	Relation	table = table_open(infer_relation_oid("fresh"), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *rows = NIL;

	ScanKeyInit(&key, Anum_fresh_fresh, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(number));
	scan = systable_beginscan(table, infer_relation_oid("fresh_pkey"), true, snapshot, number != 0 ? 1 : 0, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, deform(table, tuple));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return rows;
}

Fresh *
fresh_get(int64 number)
{
	List	   *rows = read_rows(number);

	return rows == NIL ? NULL : linitial(rows);
}

List *
fresh_list(void)
{
	return read_rows(0);
}

/* ---- what a dump brings ---- */

PG_FUNCTION_INFO_V1(infer_fresh_restored);

/*
 * A row that SQL inserts is a dump's: the library's own writing fires no triggers.  It is kept for the role of its
 * name only if whoever restores it may act for that role, and else for whoever restores it; and it has not
 * been seen with its table here.  Who could write another's name could have code run as the other.
 */
Datum
infer_fresh_restored(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Fresh	   *fresh;
	Oid			role;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BY_INSERT(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event) || RelationGetRelid(data->tg_relation) != infer_relation_oid("fresh"))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function infer.fresh_restored() is of a trigger of infer.fresh")));
	for (int attribute = 1; attribute <= Natts_fresh; attribute++)
		if (TupleDescAttr(RelationGetDescr(data->tg_relation), attribute - 1)->attnotnull &&
			heap_attisnull(data->tg_trigtuple, attribute, RelationGetDescr(data->tg_relation)))
			return PointerGetDatum(data->tg_trigtuple);	/* which is refused */
	fresh = deform(data->tg_relation, data->tg_trigtuple);
	role = get_role_oid(fresh->owner_name, true);
	if (!OidIsValid(role) || !has_privs_of_role(GetUserId(), role))
		role = GetUserId();
	fresh->owner = role;
	fresh->owner_name = GetUserNameFromId(role, false);
	fresh->table = InvalidOid;
	fresh->job = 0;
	fresh->job_before = 0;
	infer_jobs_changed();
	return PointerGetDatum(form(data->tg_relation, fresh));
}
