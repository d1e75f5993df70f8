/**
 * Programs: a graph at concrete shapes, forward and backward, as steps in order over values with planned lifetimes. Made by
 * {@code trainer.autodiff}; run by devices; printable, hashable, without a device.
 */
@NullMarked
package dev.octet.trainer.program;

import org.jspecify.annotations.NullMarked;
