/*
 * proto.h
 *	  A protobuf reader for test cases: fields one after another, nothing copied.
 *
 * Own to the tests on purpose: cases are not read by the code that they test.  A damaged
 * message sets bad and ends.  Wire format: protobuf.dev/programming-guides/encoding.
 */
#ifndef TEST_CONFORMANCE_PROTO_H
#define TEST_CONFORMANCE_PROTO_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct proto
{
	const uint8_t *at;
	const uint8_t *end;
	bool		bad;

	/* the field that proto_next found */
	const uint8_t *begin;		/* its first byte, tag included */
	uint32_t	field;
	uint32_t	wire;			/* 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes */
	uint64_t	value;			/* of wire 0, 1 and 5 */
	const uint8_t *data;		/* of wire 2 */
	uint64_t	length;
};

static inline struct proto
proto_open(const void *data, uint64_t length)
{
	struct proto p;

	memset(&p, 0, sizeof(p));
	p.at = data;
	p.end = p.at + length;
	return p;
}

static inline uint64_t
proto_varint(struct proto *p)
{
	uint64_t	value = 0;

	for (int shift = 0; shift < 64 && p->at < p->end; shift += 7)
	{
		uint8_t		byte = *p->at++;

		value |= (uint64_t) (byte & 0x7F) << shift;
		if (byte < 0x80)
			return value;
	}
	p->bad = true;
	return 0;
}

static inline bool
proto_next(struct proto *p)
{
	uint64_t	tag;
	uint64_t	size = 0;

	if (p->bad || p->at >= p->end)
		return false;
	p->begin = p->at;
	tag = proto_varint(p);
	p->field = (uint32_t) (tag >> 3);
	p->wire = (uint32_t) (tag & 7);
	switch (p->wire)
	{
		case 0:
			p->value = proto_varint(p);
			return !p->bad;
		case 1:
			size = 8;
			break;
		case 2:
			size = proto_varint(p);
			break;
		case 5:
			size = 4;
			break;
		default:
			p->bad = true;
	}
	if (p->bad || size > (uint64_t) (p->end - p->at))
	{
		p->bad = true;
		return false;
	}
	p->data = p->at;
	p->length = size;
	p->value = 0;
	if (p->wire != 2)
		memcpy(&p->value, p->at, size);
	p->at += size;
	return true;
}

static inline bool
proto_is(const struct proto *p, const char *text)
{
	return p->length == strlen(text) && memcmp(p->data, text, p->length) == 0;
}

/* The next number of a repeated field, packed or not; p stands on the field. */
static inline struct proto
proto_packed(const struct proto *p)
{
	if (p->wire == 2)
		return proto_open(p->data, p->length);
	return proto_open(p->begin, (uint64_t) (p->at - p->begin));
}

#endif							/* TEST_CONFORMANCE_PROTO_H */
