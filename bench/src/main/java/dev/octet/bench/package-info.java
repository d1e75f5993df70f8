/**
 * Speed: each benchmark first checks the result against the reference, then times. What comes out: JMH's results, committed in
 * {@code bench/results}. Nothing depends on this room.
 */
@NullMarked
package dev.octet.bench;

import org.jspecify.annotations.NullMarked;
