// Package psp calls the payment service provider, over the wire contract in gateway-sim/CONTRACT.md, and says what is
// known afterwards.
//
// A call passes retry → breaker → bulkhead → one HTTP exchange. Read it in that order: charge.go is one charge from end to end,
// retry.go decides on a further attempt, attempt.go takes one attempt through breaker and bulkhead, exchange.go is the
// HTTP exchange, and classify.go holds the one table that decides what an answer means. Whatever that table does not
// name is Unknown: a charge may exist.
//
// Nothing here is global. Two clients, such as the request path's and reconciliation's, have their own breaker, budget,
// bulkhead and connections, and cannot take each other's.
package psp
