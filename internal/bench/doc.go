// Package bench measures what a payment costs: the bare SQL of a claim and a finish, which is the ceiling of any service that pays
// one at a time, beside the service over gRPC and over REST, each with coalescing off and on, as real processes on one MySQL
// with full durability. All of it, the load too, shares one machine's cores.
//
// No time and no throughput makes a run fail. Wrong results do: each measurement ends with a count of what clients were told,
// of the rows in MySQL, and of the PSP's charges, and they have to agree.
package bench
