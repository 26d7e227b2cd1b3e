// Package client calls the payment service so that a purchase is charged once, over gRPC or REST with the same result.
//
// What the contract asks of a client, and this package does:
//
//   - One idempotency key per purchase intent, not per send: [NewIntent] mints it, [Intent] carries it, and [Client.Pay] sends
//     no other one. Keep the intent (it has a JSON form) before you pay, and pay the same intent again after a restart.
//   - next_action decides, never the status. retry_same_key: wait as long as the server said, then send the same request with
//     the same key. new_key, stop and fix_request: return, as an [*Error].
//   - An answer that the service did not write (a proxy's page, a status without ErrorInfo), a lost connection and a time-out
//     mean that a charge may exist: send the same key again.
//   - When the time is over and nothing final is known, say so: an [*OutcomeUnknownError] carries the intent, to be paid again
//     later. It never means "not charged".
//
// Nothing else retries: neither net/http nor gRPC sends a purchase again behind this package's back.
package client
