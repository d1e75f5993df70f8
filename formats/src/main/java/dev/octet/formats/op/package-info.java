/**
 * Operators: one row for each with everything that is a fact about it and not code. The converter infers types and upgrades opsets by it,
 * the trainer chooses number types by it. New operators begin here.
 */
@NullMarked
package dev.octet.formats.op;

import org.jspecify.annotations.NullMarked;
