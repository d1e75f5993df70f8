/**
 * The safetensors format: files, and folders of files with an index. Bytes come in (mapped, checked against every rule of the
 * format and some the reference reader forgets), tensors go out as views; the writer streams tensors out again. Called by the
 * root class {@code ModelFile} and by whoever streams checkpoints.
 *
 * <p>Source of the rules: the format's description and reference reader, {@code huggingface/safetensors} (README.md,
 * safetensors/src/tensor.rs) at 0.8.0. docs/formats/safetensors.md lists them with Octet's own.
 */
@NullMarked
package dev.octet.formats.safetensors;

import org.jspecify.annotations.NullMarked;
