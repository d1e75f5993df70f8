/** What can be done while a run goes on: one interface, which metrics, checkpoints and watchdogs use as well as callers' own hooks. */
@NullMarked
package dev.octet.trainer.hook;

import org.jspecify.annotations.NullMarked;
