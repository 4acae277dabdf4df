#include "scheduler/queue/redis_script.h"

/* Within a script the write that can fail on a wrong type comes first: nothing is left half done.
 *
 * A Redis at its maxmemory refuses ACCEPT alone, at its first write: what was accepted must be able to go on to its
 * end, which frees memory, so every other script that writes is allowed to exceed it. */
#define ALLOW_OOM "#!lua flags=allow-oom\n"

const char *const br_scripts[BR_SCRIPT_COUNT] = {
    [BR_SCRIPT_ACCEPT] = "local have = 0\n"
                         "for i = 2, #KEYS do\n"
                         "  local r = redis.call('HMGET', KEYS[i], 'fence', 'spec')\n"
                         "  if r[1] then\n"
                         "    if r[2] and r[2] ~= ARGV[2 * i - 2] then return {-1} end\n"
                         "    have = have + 1\n"
                         "  end\n"
                         "end\n"
                         "if have == #KEYS - 1 then\n"
                         "  local r = redis.call('HMGET', KEYS[2], 'arrival', 'fence')\n"
                         "  return {0, tonumber(r[1]), tonumber(r[2])}\n"
                         "end\n"
                         "if have > 0 then return {-1} end\n"
                         "local t = redis.call('TIME')\n"
                         "local us = string.format('%.0f', t[1] * 1000000 + t[2])\n"
                         "for i = 2, #KEYS do redis.call('ZADD', KEYS[1], us, ARGV[2 * i - 3]) end\n"
                         "for i = 2, #KEYS do\n"
                         "  redis.call('HSET', KEYS[i], 'spec', ARGV[2 * i - 2], 'fence', 1, 'n', 0, 'end', 0,\n"
                         "             'arrival', us)\n"
                         "end\n"
                         "return {0, tonumber(us), 1}\n",
    [BR_SCRIPT_LEASE] = ALLOW_OOM "local r = redis.call('HMGET', KEYS[1], 'fence', 'end', 'owner', 'call')\n"
                                  "if not r[1] or r[2] ~= '0' then return {-2} end\n"
                                  "if r[3] == ARGV[1] and tonumber(r[4]) >= tonumber(ARGV[2]) then\n"
                                  "  return {0, tonumber(r[1])}\n"
                                  "end\n"
                                  "local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)\n"
                                  "redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'call', ARGV[2])\n"
                                  "return {0, fence}\n",
    [BR_SCRIPT_APPEND] = ALLOW_OOM "local r = redis.call('HMGET', KEYS[1], 'fence', 'n', 'end', 'arrival')\n"
                                   "if not r[1] then return {-2} end\n"
                                   "if r[1] ~= ARGV[1] then return {-5} end\n"
                                   "local n, first, fin = tonumber(r[2]), tonumber(ARGV[2]), ARGV[4]\n"
                                   "local upto = first + tonumber(ARGV[3])\n"
                                   "if r[3] ~= '0' then\n"
                                   "  if upto <= n and (fin == '0' or fin == r[3]) then return {0} end\n"
                                   "  return {-2}\n"
                                   "end\n"
                                   "if first > n then return {-1, n} end\n"
                                   "if fin ~= '0' then\n"
                                   "  redis.call('ZREM', KEYS[3], ARGV[6])\n"
                                   "  redis.call('DEL', KEYS[1], KEYS[2])\n" /* a hash that held a spec stays large */
                                   "  redis.call('HSET', KEYS[1], 'fence', r[1], 'n', math.max(n, upto), 'end', fin,\n"
                                   "             'error', ARGV[8], 'arrival', r[4] or 0)\n"
                                   "  redis.call('EXPIRE', KEYS[1], ARGV[5])\n"
                                   "elseif upto > n then\n"
                                   "  redis.call('RPUSH', KEYS[2], ARGV[7])\n"
                                   "  redis.call('HSET', KEYS[1], 'n', upto)\n"
                                   "end\n"
                                   "return {0}\n",
    [BR_SCRIPT_READ] = "if not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return {-2} end\n"
                       "local r = redis.pcall('HMGET', KEYS[1], 'spec', 'fence', 'n', 'arrival')\n"
                       "local runs = redis.pcall('LRANGE', KEYS[2], 0, -1)\n"
                       "if r.err or runs.err then return {-8} end\n"
                       "for i = 1, 4 do if not r[i] then return {-8} end end\n"
                       "local t = redis.call('TIME')\n"
                       "return {0, r[1], r[2], r[3], r[4], t[1] * 1000000 + t[2], runs}\n",
    [BR_SCRIPT_ASIDE] = ALLOW_OOM "redis.call('SADD', KEYS[2], ARGV[1])\n"
                                  "redis.call('ZREM', KEYS[1], ARGV[1])\n"
                                  "return {0}\n",
};
