// Package rig starts the service and the simulated PSP as processes of their own, and freezes and kills them: what the demo, the
// benchmark and the torture test stand on. It builds nothing; it runs the binaries that it is given, against a database of its
// own on a real MySQL.
package rig
