/*
 * compat.h
 *	  Every test of PG_VERSION_NUM; each names what made it necessary.
 */
#ifndef INFER_COMPAT_H
#define INFER_COMPAT_H

#include "postgres.h"

#include "fmgr.h"

/* 16: the macros of variable-length values left postgres.h (d952373a987) */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * 16: extensions are compiled with hidden symbols, and this macro exports the function
 * itself too (089480c0770).  We hide ours on every version.
 */
#if PG_VERSION_NUM < 160000
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(funcname) \
extern PGDLLEXPORT Datum funcname(PG_FUNCTION_ARGS); \
extern PGDLLEXPORT const Pg_finfo_record *CppConcat(pg_finfo_, funcname) (void); \
const Pg_finfo_record * \
CppConcat(pg_finfo_, funcname) (void) \
{ \
	static const Pg_finfo_record my_finfo = {1}; \
	return &my_finfo; \
} \
extern int	no_such_variable
#endif

/* 18: pg_noreturn, before a declaration, replaced pg_attribute_noreturn() (28f04984f0c) */
#if PG_VERSION_NUM < 180000
#define pg_noreturn __attribute__((noreturn))
#endif

/* 16: one function checks privileges of every kind of object (c727f511bd7, afbfc02983f) */
#if PG_VERSION_NUM >= 160000
#define infer_server_aclcheck(oid, role, mode) object_aclcheck(ForeignServerRelationId, oid, role, mode)
#define infer_wrapper_aclcheck(oid, role, mode) object_aclcheck(ForeignDataWrapperRelationId, oid, role, mode)
#define infer_server_ownercheck(oid, role) object_ownercheck(ForeignServerRelationId, oid, role)
#define infer_database_ownercheck(oid, role) object_ownercheck(DatabaseRelationId, oid, role)
#define infer_class_ownercheck(oid, role) object_ownercheck(RelationRelationId, oid, role)
#define infer_function_aclcheck(oid, role, mode) object_aclcheck(ProcedureRelationId, oid, role, mode)
#define infer_database_aclcheck(oid, role, mode) object_aclcheck(DatabaseRelationId, oid, role, mode)
#else
#define infer_server_aclcheck(oid, role, mode) pg_foreign_server_aclcheck(oid, role, mode)
#define infer_wrapper_aclcheck(oid, role, mode) pg_foreign_data_wrapper_aclcheck(oid, role, mode)
#define infer_server_ownercheck(oid, role) pg_foreign_server_ownercheck(oid, role)
#define infer_database_ownercheck(oid, role) pg_database_ownercheck(oid, role)
#define infer_class_ownercheck(oid, role) pg_class_ownercheck(oid, role)
#define infer_function_aclcheck(oid, role, mode) pg_proc_aclcheck(oid, role, mode)
#define infer_database_aclcheck(oid, role, mode) pg_database_aclcheck(oid, role, mode)
#endif

/*
 * 17: internal subtransactions may be begun in parallel mode (0075d78947e).  Not by the leader: it could
 * take the error of a worker, which an interrupt raises, for that of the row that it looks at.
 */
#if PG_VERSION_NUM >= 170000
#include "access/parallel.h"
#define infer_can_subtransact() (!IsInParallelMode() || IsParallelWorker())
#else
#define infer_can_subtransact() (!IsInParallelMode())
#endif

/* 18: the parts of commands/explain.h are headers of their own (9173e8b6046, c65bc2e1d14) */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/*
 * 17: a WaitEventSet belongs to a resource owner instead of a memory context
 * (50c67c2019a).  Ours last as long as the session.
 */
#if PG_VERSION_NUM >= 170000
#define infer_create_wait_event_set(events) CreateWaitEventSet(NULL, (events))
#else
#define infer_create_wait_event_set(events) CreateWaitEventSet(TopMemoryContext, (events))
#endif

/* 17: random() has namesakes with arguments (e6341323a8d) */
#if PG_VERSION_NUM >= 170000
#define INFER_F_RANDOM F_RANDOM_
#else
#define INFER_F_RANDOM F_RANDOM
#endif

/* 17: extensions name their wait events (c9af0546530) */
#if PG_VERSION_NUM >= 170000
#define infer_wait_event_new(name) WaitEventExtensionNew(name)
#else
#define infer_wait_event_new(name) PG_WAIT_EXTENSION
#endif

/* 17: transactions have a limit of their own (51efe38cb92) */
#if PG_VERSION_NUM >= 170000
#define INFER_HAS_TRANSACTION_TIMEOUT
#endif

/* 17: a process's identity as a virtual transaction is a struct (ab355e3a88d) */
#if PG_VERSION_NUM >= 170000
#define infer_local_transaction() (MyProc->vxid.lxid)
#else
#define infer_local_transaction() (MyProc->lxid)
#endif

/* ---- plans ---- */

#include "utils/selfuncs.h"

/* 17: an array's length is estimated from statistics too (9391f71523b) */
#if PG_VERSION_NUM >= 170000
#define infer_array_length(root, array) estimate_array_length(root, array)
#else
#define infer_array_length(root, array) ((double) estimate_array_length(array))
#endif

#include "nodes/plannodes.h"

/* 16: constructors of JSON became expressions (7081ac46ace) */
#if PG_VERSION_NUM >= 160000
#define infer_is_json_constructor(node) IsA(node, JsonConstructorExpr)
#else
#define infer_is_json_constructor(node) false
#endif

/* 17: merge_action() is an expression (c649fa24a42) */
/* 18: RETURNING reads OLD and NEW (80feb727c86) */
#if PG_VERSION_NUM >= 180000
#define infer_is_of_returning(node) (IsA(node, MergeSupportFunc) || IsA(node, ReturningExpr))
#elif PG_VERSION_NUM >= 170000
#define infer_is_of_returning(node) IsA(node, MergeSupportFunc)
#else
#define infer_is_of_returning(node) false
#endif

/* 17: MERGE has conditions beside its actions (0294df2f1f8) */
#if PG_VERSION_NUM >= 170000
#define infer_merge_join_conditions(modify) ((modify)->mergeJoinConditions)
#else
#define infer_merge_join_conditions(modify) NIL
#endif

/* 18: plans count disabled nodes (e2225346793) and columns can be virtual (83ea6c54025) */
#if PG_VERSION_NUM >= 180000
#define infer_copy_disabled(to, from) ((to)->disabled_nodes = (from)->disabled_nodes)
#define infer_is_virtual_column(column) ((column)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define infer_copy_disabled(to, from) ((void) 0)
#define infer_is_virtual_column(column) false
#endif

/* 18: ExecutorRun is not told any more whether it is called once (3eea7a0c97e) */
#if PG_VERSION_NUM >= 180000
#define INFER_RUN_PARAMETERS	QueryDesc *query, ScanDirection direction, uint64 count
#define INFER_RUN_ARGUMENTS		query, direction, count
#else
#define INFER_RUN_PARAMETERS	QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define INFER_RUN_ARGUMENTS		query, direction, count, once
#endif

/* ---- jobs ---- */

/* 17: a worker's role need not be able to log in (e7689190b3d) */
#define infer_worker_skips_login	(PG_VERSION_NUM >= 170000)
#if PG_VERSION_NUM >= 170000
#define INFER_WORKER_FLAGS	BGWORKER_BYPASS_ROLELOGINCHECK
#else
#define INFER_WORKER_FLAGS	0
#endif

/* 18: a constraint NOT NULL need not have been checked yet (a379061a22a) */
#include "access/tupdesc.h"
#if PG_VERSION_NUM >= 180000
#define infer_is_not_null(desc, i) (TupleDescCompactAttr(desc, i)->attnullability == ATTNULLABLE_VALID)
#else
#define infer_is_not_null(desc, i) (TupleDescAttr(desc, i)->attnotnull)
#endif

/* 16: a file is a RelFileNumber (b0a55e43299) */
#if PG_VERSION_NUM >= 160000
#define infer_file_number(relation) ((relation)->rd_locator.relNumber)
#else
#define infer_file_number(relation) ((relation)->rd_node.relNode)
#endif

/* ---- EXPLAIN ---- */

/* 18: a hook for what is told of a plan (4fd02bf7cf9) */
#if PG_VERSION_NUM >= 180000
#define INFER_HAS_EXPLAIN_PER_PLAN
#endif

/* 17: what EXPLAIN does by itself is a function */
#if PG_VERSION_NUM >= 170000
#define infer_explain_query standard_ExplainOneQuery
#endif

#endif							/* INFER_COMPAT_H */
