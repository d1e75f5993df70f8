/**
 * Arithmetic of training on many devices: sizes of a model and a table of accelerators come in; bytes, FLOPs, seconds and the choices that fit go out. Nothing here
 * opens a file or computes with a weight.
 */
@NullMarked
package dev.octet.pipeline.plan;

import org.jspecify.annotations.NullMarked;
