/*
 * memo.c
 *	  See memo.h.
 *
 * Nouns
 *	bucket		the first of a chain of entries whose keys begin alike
 *	recency		a ring of all entries in use; entry 0 is its own link, before it the newest
 *
 * Invariants
 *	- Entries are named by numbers: the array moves when it grows.
 *	- A pending or pinned entry is never evicted.
 *	- memo_unpin and memo_forget are called from reset callbacks: they do not allocate or raise.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "memo.h"

#define ENTRIES_FIRST	256
#define EVICT_TRIES		8			/* entries looked at for one that may go */
#define SAMPLE_WORDS	16			/* of a row, looked at to choose the sample */

typedef struct MemoEntry
{
	MemoKey		key;
	Datum		value;
	uint64		rows : 47;			/* who computes it, or used it last */
	uint64		pending : 1;
	uint64		pins : 16;
	int32		ticket;				/* of theirs */
	uint32		next;				/* in its bucket, or among the free; 0: none */
	uint32		newer;
	uint32		older;
} MemoEntry;

struct Memo
{
	MemoryContext context;
	bool		by_value;
	uint64		secret[2];			/* of the hash */
	uint64		bytes_max;
	uint64		values_bytes;
	MemoEntry  *entries;			/* [0] is the link of recency */
	uint32		room;				/* entries, with that one */
	uint32		used;				/* of them, ever */
	uint32		free;				/* the first that was given back; 0: none */
	uint32	   *buckets;
	uint32		buckets_count;		/* a power of two */

	uint64		row_nsec;
	bool		sampled;
	uint32		probes;				/* in this window */
	uint32		hits;
};

/* ---- keys ---- */

typedef struct Sip
{
	uint64		v[4];
} Sip;

static inline uint64
rotate(uint64 value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void
sip_round(Sip *s)
{
	s->v[0] += s->v[1];
	s->v[1] = rotate(s->v[1], 13) ^ s->v[0];
	s->v[0] = rotate(s->v[0], 32);
	s->v[2] += s->v[3];
	s->v[3] = rotate(s->v[3], 16) ^ s->v[2];
	s->v[0] += s->v[3];
	s->v[3] = rotate(s->v[3], 21) ^ s->v[0];
	s->v[2] += s->v[1];
	s->v[1] = rotate(s->v[1], 17) ^ s->v[2];
	s->v[2] = rotate(s->v[2], 32);
}

static inline void
sip_word(Sip *s, uint64 word)
{
	s->v[3] ^= word;
	sip_round(s);
	s->v[0] ^= word;
}

static inline uint64
sip_end(Sip *s)
{
	for (int i = 0; i < 3; i++)
		sip_round(s);
	return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

static inline uint64
read_word(const char *bytes)
{
	uint64		word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* The last bytes of a text, with its length above them. */
static inline uint64
last_word(const char *bytes, Size length)
{
	uint64		word = 0;

	memcpy(&word, bytes + length / 8 * 8, length % 8);
	return word | (uint64) length << 56;
}

/* SipHash with one and three rounds, of 128 bits (Aumasson and Bernstein, 2012; 128 bits: 2015). */
static void
hash_key(const Memo *memo, uint32 asked, int detail, const char *bytes, Size length, MemoKey *key)
{
	Sip			s = {{
		memo->secret[0] ^ UINT64CONST(0x736f6d6570736575),
		memo->secret[1] ^ UINT64CONST(0x646f72616e646f6d) ^ 0xee,
		memo->secret[0] ^ UINT64CONST(0x6c7967656e657261),
		memo->secret[1] ^ UINT64CONST(0x7465646279746573)
	}};

	sip_word(&s, (uint64) asked << 32 | (uint32) detail);
	for (Size i = 0; i + 8 <= length; i += 8)
		sip_word(&s, read_word(bytes + i));
	sip_word(&s, last_word(bytes, length));
	s.v[2] ^= 0xee;
	key->word[0] = sip_end(&s);
	s.v[1] ^= 0xdd;
	key->word[1] = sip_end(&s);
}

/* Whether a row is of the sample: quickly, from some of its words. */
static bool
in_sample(const Memo *memo, const char *bytes, Size length)
{
	Size		words = length / 8;
	Size		step = words > SAMPLE_WORDS ? words / SAMPLE_WORDS : 1;
	uint64		hash = memo->secret[0] ^ last_word(bytes, length);

	for (Size i = 0; i < words; i += step)
		hash = (rotate(hash, 23) ^ read_word(bytes + i * 8)) * UINT64CONST(0x9E3779B97F4A7C15);
	return (hash * UINT64CONST(0xD6E8FEB86659FD93)) >> 32 < PG_UINT32_MAX / MEMO_SAMPLE;
}

bool
memo_key(Memo *memo, uint32 asked, int detail, const void *bytes, Size length, MemoKey *key)
{
	if (memo->sampled && !in_sample(memo, bytes, length))
		return false;
	hash_key(memo, asked, detail, bytes, length, key);
	return true;
}

/* ---- whether it pays ---- */

/* By an equal row. */
static uint64
saved_nsec(const Memo *memo)
{
	return memo->row_nsec + (memo->by_value ? MEMO_VALUE_NSEC : MEMO_DATUM_NSEC);
}

static bool
is_dear(const Memo *memo)
{
	return saved_nsec(memo) >= MEMO_DEAR * MEMO_PROBE_NSEC;
}

void
memo_learn(Memo *memo, uint64 row_nsec)
{
	memo->row_nsec = row_nsec;
	memo->bytes_max = (uint64) work_mem * 1024 / (is_dear(memo) ? 2 : 4);
}

static void
count_probe(Memo *memo, bool hit)
{
	uint64		saved = saved_nsec(memo);

	memo->probes++;
	memo->hits += hit;
	if (memo->probes < (memo->sampled ? MEMO_WINDOW_SAMPLED : MEMO_WINDOW))
		return;
	memo->sampled = !is_dear(memo) &&
		memo->hits * saved < (uint64) memo->probes * MEMO_PROBE_NSEC;
	memo->probes = memo->hits = 0;
}

/* ---- recency ---- */

static void
recency_remove(Memo *memo, uint32 number)
{
	MemoEntry  *entry = &memo->entries[number];

	memo->entries[entry->newer].older = entry->older;
	memo->entries[entry->older].newer = entry->newer;
}

static void
recency_add(Memo *memo, uint32 number)
{
	MemoEntry  *entry = &memo->entries[number];

	entry->newer = 0;
	entry->older = memo->entries[0].older;
	memo->entries[entry->older].newer = number;
	memo->entries[0].older = number;
}

/* ---- entries ---- */

static uint32 *
bucket_of(const Memo *memo, const MemoKey *key)
{
	return &memo->buckets[key->word[0] & (memo->buckets_count - 1)];
}

static void
free_value(Memo *memo, MemoEntry *entry)
{
	if (memo->by_value || entry->pending)
		return;
	memo->values_bytes -= GetMemoryChunkSpace(DatumGetPointer(entry->value));
	pfree(DatumGetPointer(entry->value));
}

static void
remove_entry(Memo *memo, uint32 number)
{
	MemoEntry  *entry = &memo->entries[number];
	uint32	   *link = bucket_of(memo, &entry->key);

	while (*link != number)
		link = &memo->entries[*link].next;
	*link = entry->next;
	recency_remove(memo, number);
	free_value(memo, entry);
	entry->next = memo->free;
	memo->free = number;
}

/* The entry longest unused that may go, goes; false: there is none. */
static bool
evict(Memo *memo)
{
	for (int i = 0; i < EVICT_TRIES; i++)
	{
		uint32		number = memo->entries[0].newer;

		if (number == 0)
			return false;
		if (!memo->entries[number].pending && memo->entries[number].pins == 0)
		{
			remove_entry(memo, number);
			return true;
		}
		recency_remove(memo, number);
		recency_add(memo, number);
	}
	return false;
}

/* Of what equal rows there are all of the room would find, a sample finds its part in as small a part of it. */
static uint64
bytes_allowed(const Memo *memo)
{
	return memo->sampled ? memo->bytes_max / MEMO_SAMPLE : memo->bytes_max;
}

static uint64
bytes_used(const Memo *memo)
{
	return (uint64) memo->room * sizeof(MemoEntry) + memo->buckets_count * sizeof(uint32) + memo->values_bytes;
}

/* Of values, that is: the room for entries, once it is there, stays. */
static bool
has_too_much(const Memo *memo)
{
	if (memo->values_bytes == 0)
		return false;
	return memo->sampled ? memo->values_bytes > bytes_allowed(memo) : bytes_used(memo) > memo->bytes_max;
}

static void
rehash(Memo *memo, uint32 count)
{
	if (memo->buckets != NULL)
		pfree(memo->buckets);
	memo->buckets = MemoryContextAllocExtended(memo->context, count * sizeof(uint32),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	memo->buckets_count = count;
	for (uint32 number = memo->entries[0].older; number != 0; number = memo->entries[number].older)
	{
		uint32	   *bucket = bucket_of(memo, &memo->entries[number].key);

		memo->entries[number].next = *bucket;
		*bucket = number;
	}
}

/* More room for entries, as far as the bound allows; false: it does not. */
static bool
grow(Memo *memo)
{
	bool		more_buckets = memo->room > memo->buckets_count;
	uint64		used = bytes_used(memo) + (more_buckets ? memo->buckets_count * sizeof(uint32) : 0);
	uint64		left = bytes_allowed(memo) - Min(bytes_allowed(memo), used);
	uint64		more = Min(left / sizeof(MemoEntry), memo->room);

	if (more < ENTRIES_FIRST || memo->room + more > PG_INT32_MAX)
		return false;
	memo->room += more;
	memo->entries = repalloc_huge(memo->entries, memo->room * sizeof(MemoEntry));
	if (more_buckets)
		rehash(memo, 2 * memo->buckets_count);
	return true;
}

/* An entry's number, 0 if there is no room. */
static uint32
new_entry(Memo *memo)
{
	uint32		number;

	if (memo->free == 0 && memo->used == memo->room && !grow(memo) && !evict(memo))
		return 0;
	if (memo->free == 0)
		return memo->used++;
	number = memo->free;
	memo->free = memo->entries[number].next;
	return number;
}

Memo *
memo_make(MemoryContext context, bool by_value)
{
	Memo	   *memo = MemoryContextAllocZero(context, sizeof(Memo));

	memo->context = context;
	memo->by_value = by_value;
	memo->row_nsec = MEMO_UNKNOWN_NSEC;
	memo->bytes_max = (uint64) work_mem * 1024 / 4;
	if (!pg_strong_random(memo->secret, sizeof(memo->secret)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random numbers")));
	memo->room = ENTRIES_FIRST;
	memo->used = 1;
	memo->entries = MemoryContextAllocZero(context, memo->room * sizeof(MemoEntry));
	rehash(memo, ENTRIES_FIRST);
	return memo;
}

/* ---- what memo.h promises ---- */

int
memo_find(Memo *memo, const MemoKey *key)
{
	uint32		number = *bucket_of(memo, key);

	while (number != 0 && memcmp(&memo->entries[number].key, key, sizeof(*key)) != 0)
		number = memo->entries[number].next;
	count_probe(memo, number != 0);
	if (number == 0)
		return MEMO_NONE;
	recency_remove(memo, number);
	recency_add(memo, number);
	return number;
}

int
memo_add(Memo *memo, const MemoKey *key, uint64 rows, int ticket)
{
	uint32		number = new_entry(memo);
	uint32	   *bucket;

	if (number == 0)
		return MEMO_NONE;
	bucket = bucket_of(memo, key);
	memo->entries[number] = (MemoEntry) {
		.key = *key, .rows = rows, .pending = true, .ticket = ticket, .next = *bucket
	};
	*bucket = number;
	recency_add(memo, number);
	return number;
}

bool
memo_ticket(const Memo *memo, int number, uint64 rows, int *ticket)
{
	const MemoEntry *entry = &memo->entries[number];

	*ticket = entry->rows == rows ? entry->ticket : MEMO_NONE;
	return !entry->pending || entry->rows == rows;
}

void
memo_pin(Memo *memo, int number, uint64 rows, int ticket)
{
	MemoEntry  *entry = &memo->entries[number];

	Assert(!entry->pending && entry->pins < PG_UINT16_MAX);
	entry->pins++;
	entry->rows = rows;
	entry->ticket = ticket;
}

void
memo_unpin(Memo *memo, int number)
{
	Assert(memo->entries[number].pins > 0);
	memo->entries[number].pins--;
}

void
memo_set(Memo *memo, int number, Datum value)
{
	Datum		copy = value;
	MemoryContext old;

	if (!memo->by_value)
	{
		old = MemoryContextSwitchTo(memo->context);
		copy = datumCopy(value, false, -1);
		MemoryContextSwitchTo(old);
		memo->values_bytes += GetMemoryChunkSpace(DatumGetPointer(copy));
	}
	memo->entries[number].value = copy;
	memo->entries[number].pending = false;
	memo->entries[number].rows = 0;
	while (has_too_much(memo) && evict(memo))
		;
}

void
memo_forget(Memo *memo, int number)
{
	Assert(memo->entries[number].pending);
	remove_entry(memo, number);
}

Datum
memo_value(const Memo *memo, int number)
{
	return memo->entries[number].value;
}
