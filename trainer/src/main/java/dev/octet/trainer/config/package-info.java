/** What a run is told to do: immutable records read from YAML, checked when they are made. Every key and default is in docs/training.md. */
@NullMarked
package dev.octet.trainer.config;

import org.jspecify.annotations.NullMarked;
