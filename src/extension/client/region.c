/*
 * region.c
 *	  Payload regions: memfds mapped here and, once opened, in the engine.
 *
 * Nouns
 *	free		without an owner, and the engine has given back what was last asked in it
 *	abandoned	without an owner, but the engine still has a request of it: its call gave up
 *	detached	mapped here only: never sent, or its connection has gone
 *
 * Loop
 *	A call takes a free region that is large enough, or a new one, or has one grown; fills
 *	it; attaches it; releases it.  Regions are kept, prefaulted as they are, for the next
 *	call: first touch costs more than a small model.  At the end of its transaction a session
 *	gives back what is large: it may rest for hours, and others would be refused meanwhile; but
 *	not a job's process, which goes on with its next chunk.
 *
 * Invariants
 *	- At most INFER_REGIONS_MAX per session.  If all are in use, calls that have ended keep
 *	  their replies elsewhere, the connection is closed, which brings the abandoned ones
 *	  back, and calls in flight are waited for, in this order.
 *	- A session that waits for infer.payload_limit's memory holds none of it (room.c), so
 *	  sessions never wait for one another in a circle.
 *	- The memfd is sealed before it is sent: it cannot shrink under the engine.
 *	- The descriptor is closed once the engine has been sent it: a session at rest holds none.
 *	- All sessions at rest together hold no more than half of infer.payload_limit.
 */
#include "postgres.h"

#include "internal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/fd.h"

#define SMALL_USES_MAX 64			/* releases without need of a large region, until it is dropped */
#define LARGE_SIZE (1u << 20)

static Region regions[INFER_REGIONS_MAX];
static int	regions_count;			/* those beyond were never used */
static struct infer_error_text refusal;		/* of the region refused last */
static bool stays;					/* as infer_client_stay says */

/* ---- mappings ---- */

static void
unmap(Region *region)
{
	if (region->fd >= 0)
	{
		close(region->fd);
		ReleaseExternalFD();
	}
	if (region->head != NULL)
		munmap(region->head, region->size);
	region->head = NULL;
	region->size = 0;
	region->fd = -1;
	region->connection = 0;
	region->ready = false;
	region->refused = false;
	region->seq = 0;
	region->small_uses = 0;
}

static bool
is_attached(const Region *region)
{
	return region->connection != 0 && connection_is(region->connection);
}

/* Give it back to the system, and to the engine if that knows it. */
static void
drop(Region *region)
{
	if (is_attached(region))
		connection_post(INFER_FRAME_DROP, region->slot, 0, NULL, 0);
	unmap(region);
}

static uint64
size_limit(void)
{
	return Min((uint64) infer_payload_limit * 1024, INFER_REGION_MAX);
}

/* The next power of two, within the limits. */
static uint64
round_size(uint64 size)
{
	uint64		rounded = INFER_REGION_MIN;

	if (size > size_limit())
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the values of one call take more than infer.payload_limit"),
				 errdetail("They take %llu kB; the limit is %llu kB.",
						   (unsigned long long) (size + 1023) / 1024,
						   (unsigned long long) size_limit() / 1024),
				 errhint("Use smaller batches, or raise infer.payload_limit.")));
	while (rounded < size)
		rounded *= 2;
	return Min(rounded, size_limit());
}

static int
make_memfd(uint64 size)
{
	int			fd;

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no file descriptor is left for a call to the engine"),
				 errhint("Raise max_files_per_process, or the system's limit.")));
	fd = memfd_create("infer-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
	{
		int			save_errno = errno;

		if (fd >= 0)
			close(fd);
		ReleaseExternalFD();
		errno = save_errno;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not make shared memory for a call to the engine: %m")));
	}
	return fd;
}

/* A fresh mapping in an empty slot. */
static void
map(Region *region, uint64 size)
{
	int			fd = make_memfd(size);
	void	   *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (address == MAP_FAILED)
	{
		int			save_errno = errno;

		close(fd);
		ReleaseExternalFD();
		errno = save_errno;
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not map %llu bytes for a call to the engine: %m",
						(unsigned long long) size)));
	}
	region->head = address;
	region->size = size;
	region->fd = fd;
	region->head->magic = INFER_PROTOCOL_MAGIC;
	region->head->version = INFER_PROTOCOL_VERSION;
	region->head->size = size;
}

/* Another mapping with the same inputs: larger, or for another engine. */
static void
remap(Region *region, uint64 size, uint64 used)
{
	Region		fresh = {.slot = region->slot, .fd = -1};

	map(&fresh, size);
	if (used > INFER_REGION_HEAD)
		memcpy((char *) fresh.head + INFER_REGION_HEAD, (char *) region->head + INFER_REGION_HEAD,
			   used - INFER_REGION_HEAD);
	drop(region);
	region->head = fresh.head;
	region->size = fresh.size;
	region->fd = fresh.fd;
}

/* ---- slots ---- */

static bool
is_abandoned(const Region *region)
{
	return region->head != NULL && region->owner == NULL && is_attached(region) &&
		!region_is_done(region);
}

static bool
is_free(const Region *region)
{
	return region->head != NULL && region->owner == NULL && !is_abandoned(region);
}

static bool
any_abandoned(void)
{
	for (int i = 0; i < regions_count; i++)
		if (is_abandoned(&regions[i]))
			return true;
	return false;
}

/* The smallest free region of that size, else the largest free one, else an empty slot. */
static Region *
choose(uint64 size)
{
	Region	   *fits = NULL;
	Region	   *largest = NULL;
	Region	   *empty = NULL;

	for (int i = 0; i < regions_count; i++)
	{
		Region	   *region = &regions[i];

		if (region->head == NULL && region->owner == NULL)
			empty = empty ? empty : region;
		else if (!is_free(region))
			continue;
		else if (region->size >= size && (fits == NULL || region->size < fits->size))
			fits = region;
		else if (largest == NULL || region->size > largest->size)
			largest = region;
	}
	if (empty == NULL && regions_count < INFER_REGIONS_MAX)
		empty = &regions[regions_count];
	return fits ? fits : largest ? largest : empty;
}

/* ---- at rest ---- */

/* Drop free regions until those that stay have no more than so many bytes; whether any was. */
static bool
drop_free(uint64 keep)
{
	bool		dropped = false;

	for (int i = 0; i < regions_count; i++)
	{
		Region	   *region = &regions[i];

		if (!is_free(region))
			continue;
		if (region->size <= keep)
			keep -= region->size;
		else
		{
			drop(region);
			dropped = true;
		}
	}
	return dropped;
}

static void
rest(void)
{
	uint64		share = (uint64) infer_payload_limit * 1024 / 2 / MaxBackends;

	if (!stays)
		(void) drop_free(Min(share, LARGE_SIZE));
}

void
infer_client_stay(bool stay)
{
	stays = stay;
	rest();
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			rest();
			break;
		default:
			break;				/* parallel workers end with their regions */
	}
}

bool
region_yield(void)
{
	return drop_free(0);
}

bool
region_could_fit(const Region *region)
{
	uint64		used = region->size;

	for (int i = 0; i < regions_count; i++)
		if (&regions[i] != region && regions[i].owner != NULL && is_attached(&regions[i]))
			used += regions[i].size;
	return used <= (uint64) infer_payload_limit * 1024;
}

/* ---- taking ---- */

Region *
region_take(InferCall *owner, uint64 size)
{
	static bool registered = false;
	Region	   *region;

	if (!registered)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		registered = true;
	}
	size = round_size(size);
	while ((region = choose(size)) == NULL)
	{
		if (room_from_ended(owner))
			continue;
		if (any_abandoned())
			connection_close(true);		/* so the engine gives them back */
		else if (!room_from_submitted(owner))
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a session cannot have more than %d calls in flight", INFER_REGIONS_MAX)));
	}

	if (region->head == NULL)
	{
		region->slot = region - regions;
		region->fd = -1;
		map(region, size);
		regions_count = Max(regions_count, (int) region->slot + 1);
	}
	else if (region->size < size)
		remap(region, size, 0);
	region->owner = owner;
	return region;
}

void
region_grow(Region *region, uint64 size, uint64 used)
{
	if (region->size < size)
		remap(region, round_size(size), used);
}

bool
region_detach(Region *region, uint64 used)
{
	if (!is_attached(region))
		return false;
	remap(region, region->size, used);
	return true;
}

/* Large regions that nobody needed for a while go back to the system. */
static void
drop_unneeded(void)
{
	for (int i = 0; i < regions_count; i++)
	{
		Region	   *region = &regions[i];

		if (region->size > LARGE_SIZE && is_free(region) && ++region->small_uses > SMALL_USES_MAX)
			drop(region);
	}
}

/* From a reset callback too. */
void
region_release(Region *region, uint64 used)
{
	region->owner = NULL;
	if (used > region->size / 8)
		region->small_uses = 0;
	if (!is_attached(region) && region->fd < 0)
		unmap(region);
	if (IsTransactionState())
		drop_unneeded();
	else
		rest();					/* calls of a transaction that aborted end after its callbacks */
}

InferCall *
region_owner(int *next)
{
	while (*next < regions_count)
	{
		InferCall  *owner = regions[(*next)++].owner;

		if (owner != NULL)
			return owner;
	}
	return NULL;
}

/* ---- opening ---- */

enum SleepEnd
region_attach(Region *region, uint64 used, uint64 deadline)
{
	enum SleepEnd end;

	if (is_attached(region) && region->ready)
		return SLEEP_WOKEN;
	if (!is_attached(region))
	{
		if (region->fd < 0)
			remap(region, region->size, used);
		region->refused = region->ready = region->lost_by_us = false;
		region->open_request = connection_request();
		end = connection_send(INFER_FRAME_REGION, region->slot, region->open_request,
							  &(struct infer_region_open) {.size = region->size},
							  sizeof(struct infer_region_open), &region->fd, 1, deadline);
		if (end != SLEEP_WOKEN)
			return end;
		close(region->fd);
		ReleaseExternalFD();
		region->fd = -1;
		region->connection = connection.number;
	}
	while (!region->ready && !region->refused)
	{
		end = connection_sleep(deadline);
		if (end != SLEEP_WOKEN)
			return end;
	}
	if (region->refused)
		region->connection = 0;		/* the engine does not know it: the next attempt opens it anew */
	return SLEEP_WOKEN;
}

const struct infer_error_text *
region_refusal(void)
{
	return &refusal;
}

void
region_on_ready(uint32 slot, uint64 request)
{
	Region	   *region = &regions[slot];

	if (region->head != NULL && region->open_request == request)
		region->ready = true;
}

bool
region_on_error(uint64 request, const struct infer_error_text *err)
{
	for (int i = 0; i < regions_count; i++)
	{
		if (regions[i].head != NULL && regions[i].open_request == request)
		{
			regions[i].refused = true;
			refusal = *err;
			return true;
		}
	}
	return false;
}

/* Regions in use stay mapped: their calls will want to send their inputs again. */
void
region_on_close(bool by_us)
{
	for (int i = 0; i < regions_count; i++)
	{
		Region	   *region = &regions[i];

		if (region->head == NULL)
			continue;
		region->ready = false;
		if (region->owner == NULL)
			unmap(region);
		else if (region->connection == connection.number)
			region->lost_by_us = by_us;
	}
}
