/**
 * Files of {@code torch.save}: the zip archive and the older form, in which each storage follows the pickle. In: a file, or a part of one. Out: tensors by name
 * and where their elements lie; nothing but the pickle is read. What other formats keep in such files (distributed checkpoints, DeepSpeed, Megatron) is found
 * with the same classes.
 */
@NullMarked
package dev.octet.formats.torch;

import org.jspecify.annotations.NullMarked;
