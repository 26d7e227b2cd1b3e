// Package webhook receives the PSP's events: it checks the signature, keeps every event in an inbox (table webhook_events) and
// writes what the event says of a charge, in one transaction with the inbox row.
//
// So an event that is in the inbox as applied has had its effect once, a repeat has none, and the PSP gets its 2xx only
// when both are committed. What cannot be applied is kept too, tried again by reconciliation with growing pauses, and set
// aside for a person after a number of tries.
//
// Read it in this order: handler.go (HTTP), signature.go (who sent it), event.go (what it says), inbox.go (what becomes of it),
// retry.go (what becomes of it later).
package webhook
