/**
 * Distributed checkpoints of torch: a pickle of what is where ({@code .metadata}) and files of chunks ({@code .distcp}), or safetensors files that hold chunks. In:
 * a folder. Out: whole tensors in pieces.
 */
@NullMarked
package dev.octet.formats.dcp;

import org.jspecify.annotations.NullMarked;
