// Package lab holds experiments: each one makes a failure happen to real processes (the service, the simulated PSP, MySQL), counts
// what comes of it, and puts the figures beside those of the document that describes the failure and beside the bounds that
// this service has set itself.
//
// experiment.go says what an experiment is and lists them, run.go makes them, and site.go is what many are made on. report.go is
// what an experiment hands back: print.go writes it to a terminal, page.go makes an HTML page of it, and plot.go and its neighbours
// draw. Each other file is an experiment, part of one, or a tool that several need. Everything listens on the loopback interface, and
// every load has an end.
package lab
