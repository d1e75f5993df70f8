/**
 * What each Linear loses in each format, alone and with all others, and which mix of formats loses least: a graph with switches runs in ONNX
 * Runtime over data that are read once. Comes in: a canonical graph and samples. Goes out: losses, sizes, mixes. Callers: {@code pipeline}.
 */
@NullMarked
package dev.octet.converter.sensitivity;

import org.jspecify.annotations.NullMarked;
