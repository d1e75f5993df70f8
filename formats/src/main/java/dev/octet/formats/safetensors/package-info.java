/**
 * The safetensors format: files, and folders of files with an index. In: mapped bytes, checked against every rule of the format and some
 * that the reference reader omits. Out: tensors as views; the writer streams tensors. Used by the root class {@code ModelFile} and by
 * streaming readers of checkpoints.
 *
 * <p>Source of the rules: the format's description and reference reader, {@code huggingface/safetensors} (README.md,
 * safetensors/src/tensor.rs) at 0.8.0. docs/formats/safetensors.md lists them with Octet's own.
 */
@NullMarked
package dev.octet.formats.safetensors;

import org.jspecify.annotations.NullMarked;
