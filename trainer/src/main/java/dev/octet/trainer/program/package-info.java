/**
 * Programs: a graph with concrete shapes as an ordered list of forward and backward steps over values with planned lifetimes. Built by
 * {@code trainer.autodiff}, run by devices; can be printed and hashed without a device.
 */
@NullMarked
package dev.octet.trainer.program;

import org.jspecify.annotations.NullMarked;
