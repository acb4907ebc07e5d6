/*
 * protobuf.h
 *	  A bounded, zero-copy reader of protocol buffers (the encoding as published at
 *	  protobuf.dev/programming-guides/encoding).
 *
 * Nouns
 *	span	bytes of the mapped file; a nested message is a span that has not been read yet
 *	field	one tag with its value: a number, or a span
 *
 * Loop
 *	protobuf_open a span, protobuf_next until it returns false, then look at failed.
 *
 * Invariants
 *	- Nothing outside the span is read, whatever lengths it claims.
 *	- The reader never recurses: a nested message is read by whoever opens its span, so
 *	  depth is bounded by the code that reads, not by the input.
 *	- Groups (wire types 3 and 4, obsolete) are refused.
 */
#ifndef ENGINE_GRAPH_PROTOBUF_H
#define ENGINE_GRAPH_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

enum protobuf_wire
{
	PROTOBUF_VARINT = 0,
	PROTOBUF_FIXED64 = 1,
	PROTOBUF_BYTES = 2,
	PROTOBUF_FIXED32 = 5
};

struct protobuf_span
{
	const uint8_t *data;
	uint64_t	size;
};

struct protobuf_field
{
	uint32_t	number;
	uint32_t	wire;				/* enum protobuf_wire */
	uint64_t	value;				/* VARINT, FIXED64, FIXED32 */
	struct protobuf_span bytes;		/* BYTES */
};

struct protobuf_reader
{
	const uint8_t *at;
	const uint8_t *end;
	const char *failed;				/* what is wrong, or NULL */
};

extern void protobuf_open(struct protobuf_reader *reader, struct protobuf_span span);

/* The next field; false at the end or after a failure. */
extern bool protobuf_next(struct protobuf_reader *reader, struct protobuf_field *field);

/* One number of a packed repeated field; false at the end or after a failure. */
extern bool protobuf_packed_varint(struct protobuf_reader *reader, uint64_t *value);
extern bool protobuf_packed_fixed32(struct protobuf_reader *reader, uint32_t *value);
extern bool protobuf_packed_fixed64(struct protobuf_reader *reader, uint64_t *value);

/* How many numbers a packed field of varints holds: its bytes without a continuation bit. */
extern uint64_t protobuf_packed_count(struct protobuf_span span);

#endif							/* ENGINE_GRAPH_PROTOBUF_H */
