DROP TABLE reconcile_marks;
