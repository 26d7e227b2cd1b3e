// Package gatewaysim is a simulated payment service provider (PSP): charges, look-ups, a statement, refunds and signed
// webhooks over plain HTTP and JSON, with faults on demand. CONTRACT.md beside this file is its wire contract. The package
// imports nothing of ChargeOnce, so that client and simulator check that contract independently.
//
// # What it promises
//
// One idempotency key makes at most one charge, whatever the interleaving, the faults and the kills. A charge, a decline, a
// rejection and a technical cancel are in the file before the answer that tells of them goes out, in one line with the event
// that will be delivered for it. An answer of 500 has left nothing behind.
//
// # What survives
//
// Everything is kept in one file, a log of JSON lines to which each change appends one, by one write and without fsync. What
// was written lies in the kernel's page cache: it survives SIGKILL, a panic and the out-of-memory killer. It does not survive
// a power loss or a crash of the kernel; a real PSP's ledger would, and a simulator has no need to. Memory holds where in the
// file things are, about 300 bytes for each charge; a start reads the whole file, 100,000 charges in two seconds or so.
// Counters, the log of requests, faults and "this key is being worked on" live in memory alone and end with the process.
//
// # The admin API
//
// It has no credential and no faults, and is no part of the contract. Errors look like the contract's.
//
//	GET    /healthz                    200 while it serves
//	GET    /admin/faults               the faults in force, as Faults
//	PUT    /admin/faults               replaces them; windows begin now. 400 names the field in error.code
//	DELETE /admin/faults               ends them
//	GET    /admin/webhooks             {"url": …}
//	PUT    /admin/webhooks             changes where events go, the waiting ones too
//	POST   /admin/deliver              {"event_id": …} sends that event now, {} all that are queued; answers when they are
//	POST   /admin/charges/{id}/cancel  voids a charge: status canceled and a charge.canceled event
//	GET    /admin/stats                Stats; ?key=K for one key alone, ?keys=none for none
//	DELETE /admin/stats                sets the counters to zero
//	GET    /admin/requests             the newest requests in order, as {"requests": [Request…]}
//	GET    /admin/ledger               every charge, one JSON object per line
//	GET    /admin/events               every event and how far its delivery is, one JSON object per line
//	GET    /debug/pprof/               profiles of the process, see net/http/pprof
//
// A PSP that is slow, loses one answer in ten and hangs from second 2 to second 6:
//
//	{"seed": 1,
//	 "latency": "lognormal p50 80ms p99.9 1.2s",
//	 "rules": [{"fault": "hang", "after": "2s", "for": "4s"},
//	           {"fault": "lose_answer", "rate": 0.1, "match": {"method": "POST", "path": "/charges"}}],
//	 "webhooks": {"repeat": 2, "shuffle": "500ms", "drop_rate": 0.05}}
package gatewaysim
