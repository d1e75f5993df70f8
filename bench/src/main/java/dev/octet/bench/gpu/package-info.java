/**
 * Speed on a GPU: its limits, matrix products, casts and whole training steps, each as a JSON line on the output, for {@code bench/run-gpu}.
 * Models are made here, with random weights. Nothing depends on this room.
 */
@NullMarked
package dev.octet.bench.gpu;

import org.jspecify.annotations.NullMarked;
