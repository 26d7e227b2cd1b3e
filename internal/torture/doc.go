// Package torture attacks the service for a while and then holds it to its promises: real processes, many clients, and a nemesis
// that kills, freezes and cuts off everything in turn. What is checked comes from three books that know nothing of one
// another: the PSP's ledger, the database, and the clients' own history.
//
// # How to read it
//
// run.go is the course of a run. site.go, process.go, mysqld.go and psp.go are the processes, link.go the network between them.
// buyer.go is a client, history.go what clients saw. nemesis.go and its neighbours are the faults. audit.go records who
// wrote what to a key, watch.go looks at the database while it all goes on, and the check files hold everything against the promises.
//
// # What a seed repeats
//
// The schedule of the faults and the choices of every client. It does not repeat how threads and packets interleave, so a
// violation that a seed has found may need several runs to be seen again.
package torture
