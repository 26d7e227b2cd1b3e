// Package lab holds experiments: each one makes a failure happen to real processes (the service, the simulated PSP, MySQL), counts
// what comes of it, and puts the figures beside those of the document that describes the failure and beside the bounds that
// this service has set itself.
//
// experiment.go says what an experiment is and lists them, report.go what it hands back, site.go what it is made on, and each
// other file is one experiment or one tool that several need. Everything listens on the loopback interface, and every load has
// an end.
package lab
