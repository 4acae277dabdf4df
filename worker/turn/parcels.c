#include "worker/turn/parcels.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/pages.h"

static const uint64_t MAGIC = 0x534c4543524150ull; /* "PARCELS" */

enum { MOST_DEVICES = 64, STATE_BITS = 3 };
enum { FREE, ANNOUNCED, REFUSED, HERE, TAKEN };

/* Shared. `word` is version << STATE_BITS | state; whoever changes it from HERE has the bytes. */
struct place {
    _Atomic uint64_t word;
    _Atomic uint64_t seq;
    _Atomic int64_t since_ns; /* of the present state */
    uint64_t at, bytes, checksum;
    struct br_parcel_label label;
};

struct table {
    struct place places[BR_PARCELS];
};

struct header {
    uint64_t magic, bytes_per_device;
    uint32_t devices;
};

struct br_parcels {
    struct header *header; /* the file, mapped */
    uint64_t file_bytes;
    uint32_t device;
};

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static uint64_t tables_end(uint32_t devices)
{
    return round_up(sizeof(struct header), 64) + devices * round_up(sizeof(struct table), 64);
}

static uint64_t area_at(const struct header *h, uint32_t device)
{
    return round_up(tables_end(h->devices), BR_PAGE) + device * h->bytes_per_device;
}

static struct place *place_of(const struct br_parcels *p, uint32_t device, int32_t i)
{
    unsigned char *tables = (unsigned char *)p->header + round_up(sizeof(struct header), 64);
    return &((struct table *)(void *)(tables + device * round_up(sizeof(struct table), 64)))->places[i];
}

static unsigned state_of(uint64_t word)
{
    return word & ((1u << STATE_BITS) - 1);
}

static bool change(struct place *place, uint64_t word, unsigned state)
{
    uint64_t version = word >> STATE_BITS;
    if (!atomic_compare_exchange_strong(&place->word, &word, (version + (state == ANNOUNCED)) << STATE_BITS | state))
        return false;
    atomic_store(&place->since_ns, br_now_ns());
    return true;
}

int br_parcels_create(uint64_t bytes_per_device, uint32_t devices, int *fd, struct br_err *err)
{
    struct header h = {.magic = MAGIC, .devices = devices};
    h.bytes_per_device = round_up(bytes_per_device, BR_PAGE);
    *fd = memfd_create("briareus-parcels", MFD_CLOEXEC);
    if (*fd < 0)
        return br_err_errno(err, BR_EIO, "memory file for KV between devices");
    if (ftruncate(*fd, (off_t)area_at(&h, devices)) == 0 && pwrite(*fd, &h, sizeof h, 0) == sizeof h)
        return 0;
    br_err_errno(err, BR_ENOMEM, "%" PRIu64 " bytes of memory for KV between devices", area_at(&h, devices));
    close(*fd);
    return err->code;
}

/* What an earlier process of this device was at. */
static void own_reset(struct br_parcels *p)
{
    for (int32_t i = 0; i < BR_PARCELS; i++) {
        struct place *place = place_of(p, p->device, i);
        uint64_t version = atomic_load(&place->word) >> STATE_BITS;
        atomic_store(&place->word, (version + 1) << STATE_BITS | FREE);
        place->bytes = 0;
    }
}

int br_parcels_open(int fd, uint32_t device, struct br_parcels **out, struct br_err *err)
{
    struct header h = {0};
    struct stat sb;
    struct br_parcels *p;
    if (fstat(fd, &sb) || pread(fd, &h, sizeof h, 0) != sizeof h || h.magic != MAGIC || h.devices > MOST_DEVICES ||
        device >= h.devices || area_at(&h, h.devices) != (uint64_t)sb.st_size)
        return br_err_set(err, BR_ECORRUPT, "the memory file for KV between devices is damaged");
    p = br_calloc(1, sizeof *p);
    p->device = device;
    p->file_bytes = (uint64_t)sb.st_size;
    p->header = mmap(NULL, p->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p->header == MAP_FAILED) {
        br_err_errno(err, BR_ENOMEM, "mapping %" PRIu64 " bytes for KV between devices", p->file_bytes);
        free(p);
        return err->code;
    }
    own_reset(p);
    *out = p;
    return 0;
}

void br_parcels_close(struct br_parcels *p)
{
    if (!p)
        return;
    munmap(p->header, p->file_bytes);
    free(p);
}

/* ---- giving ---- */

static bool is_old(const struct place *place, int64_t seconds)
{
    return br_now_ns() - atomic_load(&place->since_ns) > seconds * BR_NS_PER_S;
}

/* What may make way does. A parcel that is only announced is still written to. */
static void places_clear(struct br_parcels *p)
{
    for (int32_t i = 0; i < BR_PARCELS; i++) {
        struct place *place = place_of(p, p->device, i);
        uint64_t word = atomic_load(&place->word);
        unsigned state = state_of(word);
        if (((state == HERE || state == REFUSED) && is_old(place, BR_PARCEL_KEEP_S)) ||
            (state == TAKEN && is_old(place, 2 * BR_PARCEL_KEEP_S)))
            change(place, word, FREE);
        if (state_of(atomic_load(&place->word)) == FREE)
            place->bytes = 0;
    }
}

int32_t br_parcel_announce(struct br_parcels *p, uint64_t seq)
{
    places_clear(p);
    for (int32_t i = 0; i < BR_PARCELS; i++) {
        struct place *place = place_of(p, p->device, i);
        uint64_t word = atomic_load(&place->word);
        if (state_of(word) != FREE)
            continue;
        atomic_store(&place->seq, seq);
        change(place, word, ANNOUNCED);
        return i;
    }
    return -1;
}

/* Behind whatever lies in the way of [at, at + bytes); UINT64_MAX: nothing does. */
static uint64_t behind(const struct br_parcels *p, uint64_t at, uint64_t bytes)
{
    for (int32_t i = 0; i < BR_PARCELS; i++) {
        const struct place *other = place_of(p, p->device, i);
        if (other->bytes && at < other->at + other->bytes && other->at < at + bytes)
            return other->at + other->bytes;
    }
    return UINT64_MAX;
}

unsigned char *br_parcel_memory(struct br_parcels *p, int32_t i, uint64_t bytes)
{
    struct place *place = place_of(p, p->device, i);
    uint64_t at = 0, next, whole = round_up(bytes, BR_PAGE);
    if (bytes == 0 || whole > p->header->bytes_per_device)
        return NULL;
    while ((next = behind(p, at, whole)) != UINT64_MAX) {
        at = next;
        if (at + whole > p->header->bytes_per_device)
            return NULL;
    }
    place->at = at;
    place->bytes = whole;
    return (unsigned char *)p->header + area_at(p->header, p->device) + at;
}

void br_parcel_seal(struct br_parcels *p, int32_t i, const struct br_parcel_label *label)
{
    struct place *place = place_of(p, p->device, i);
    const unsigned char *data = (unsigned char *)p->header + area_at(p->header, p->device) + place->at;
    place->label = *label;
    place->checksum = XXH3_64bits(data, place->bytes);
    change(place, atomic_load(&place->word), HERE);
}

void br_parcel_refuse(struct br_parcels *p, int32_t i)
{
    struct place *place = place_of(p, p->device, i);
    place->bytes = 0;
    change(place, atomic_load(&place->word), REFUSED);
}

uint64_t br_parcels_used(const struct br_parcels *p)
{
    uint64_t used = 0;
    places_clear((struct br_parcels *)p); // NOLINT: what it forgets does not count
    for (int32_t i = 0; i < BR_PARCELS; i++)
        used += place_of(p, p->device, i)->bytes;
    return used;
}

/* ---- taking ---- */

/* Everything that another process wrote is checked before it is used as a size. */
static bool parcel_read(const struct br_parcels *p, uint32_t device, int32_t i, uint64_t word, struct br_parcel *out)
{
    const struct place *place = place_of(p, device, i);
    uint64_t at = place->at, bytes = place->bytes, all = p->header->bytes_per_device;
    *out = (struct br_parcel){.device = device, .place = (uint32_t)i, .version = word >> STATE_BITS};
    out->label = place->label;
    out->bytes = bytes;
    out->data = (unsigned char *)p->header + area_at(p->header, device) + at;
    return bytes && bytes <= all && at <= all - bytes && atomic_load(&place->word) == word;
}

enum br_parcel_state br_parcel_find(const struct br_parcels *p, uint32_t device, uint64_t seq, struct br_parcel *out)
{
    enum br_parcel_state found = BR_PARCEL_NONE;
    int64_t latest = 0;
    for (int32_t i = 0; device < p->header->devices && i < BR_PARCELS; i++) {
        struct place *place = place_of(p, device, i);
        uint64_t word = atomic_load(&place->word);
        unsigned state = state_of(word);
        int64_t since = atomic_load(&place->since_ns);
        if (state == FREE || state == TAKEN || atomic_load(&place->seq) != seq || since < latest)
            continue;
        if (state == HERE && !parcel_read(p, device, i, word, out))
            continue;
        latest = since;
        found = state == HERE ? BR_PARCEL_HERE : state == REFUSED ? BR_PARCEL_REFUSED : BR_PARCEL_COMING;
    }
    return found;
}

bool br_parcel_verify(const struct br_parcels *p, const struct br_parcel *parcel)
{
    const struct place *place = place_of(p, parcel->device, (int32_t)parcel->place);
    return XXH3_64bits(parcel->data, parcel->bytes) == place->checksum;
}

static uint64_t word_here(const struct br_parcel *parcel)
{
    return parcel->version << STATE_BITS | HERE;
}

bool br_parcel_take(struct br_parcels *p, const struct br_parcel *parcel)
{
    return change(place_of(p, parcel->device, (int32_t)parcel->place), word_here(parcel), TAKEN);
}

void br_parcel_done(struct br_parcels *p, const struct br_parcel *parcel)
{
    change(place_of(p, parcel->device, (int32_t)parcel->place), parcel->version << STATE_BITS | TAKEN, FREE);
}
