package dev.octet.formats.safetensors;

import dev.octet.formats.error.MalformedModelException;
import org.jspecify.annotations.Nullable;

/**
 * The rules of safetensors files and folders. The first ten have the name of the reference reader's error ({@code
 * safetensors/src/tensor.rs}, SafeTensorError); the rest are Octet's own.
 *
 * <p>{@link MalformedModelException#rule()} of a refused file is {@link #id()}.
 */
enum SafetensorsRule {
    /** A file has at least the 8 bytes of the header length. */
    HEADER_TOO_SMALL("HeaderTooSmall", "the file is truncated: download or export it again"),
    /** The header length is at most {@link HeaderLimits#maxHeaderBytes()}. */
    HEADER_TOO_LARGE(
            "HeaderTooLarge", "this is not a safetensors file, or its first 8 bytes are damaged: download it again"),
    /** The header ends inside the file. */
    INVALID_HEADER_LENGTH(
            "InvalidHeaderLength", "the file is truncated or its first 8 bytes are damaged: download it again"),
    /** The header is UTF-8. */
    INVALID_HEADER("InvalidHeader", "the header is damaged: download or export the file again"),
    /** The header is one JSON object of the required form, with known element types. */
    INVALID_HEADER_DESERIALIZATION(
            "InvalidHeaderDeserialization", "the writer of this file is faulty: export it again with a current one"),
    /** Tensors follow each other without holes and without overlap, the first at byte 0. */
    INVALID_OFFSET("InvalidOffset", "the writer of this file is faulty: export it again with a current one"),
    /** The number of elements and of bits can be counted in 63 bits. */
    VALIDATION_OVERFLOW("ValidationOverflow", "the shape is damaged or hostile: do not use this file"),
    /** Elements narrower than a byte fill whole bytes. */
    MISALIGNED_SLICE("MisalignedSlice", "export the tensor with a number of elements that fills whole bytes"),
    /** A tensor takes exactly the bytes that its shape and element type need. */
    TENSOR_INVALID_INFO("TensorInvalidInfo", "the writer of this file is faulty: export it again with a current one"),
    /** The last tensor ends where the file ends. */
    METADATA_INCOMPLETE_BUFFER(
            "MetadataIncompleteBuffer", "the file is truncated or something was appended: download it again"),

    /** No tensor, field or metadata key occurs twice; the reference reader silently keeps the last tensor. */
    DUPLICATE_KEY("DuplicateKey", "two readers could see two different tensors: export the file again"),
    /** Names, ranks and nesting stay within {@link HeaderLimits}. */
    LIMIT_EXCEEDED("LimitExceeded", "if the file is trustworthy, open it with wider HeaderLimits"),

    /** The index is a JSON object with a {@code weight_map} from tensor to file. */
    INVALID_INDEX("InvalidIndex", "the index is damaged: download or export the folder again"),
    /** The index names plain files in its own folder, also after links are resolved. */
    SHARD_OUTSIDE("ShardOutside", "do not use this folder: its index points outside of it"),
    /** Every shard in the index exists. */
    MISSING_SHARD("MissingShard", "the download is incomplete: fetch the missing file"),
    /** Every tensor in the index is in the shard that the index names. */
    MISSING_TENSOR("MissingTensor", "index and shards are of different exports: download or export the folder again"),
    /** Every tensor in a shard is in the index; loaders disagree whether to load a tensor that is not. */
    STALE_TENSOR("StaleTensor", "index and shards are of different exports: download or export the folder again"),
    /** No tensor is in two shards. */
    TENSOR_IN_TWO_SHARDS("TensorInTwoShards", "export the folder again with each tensor in one shard"),
    /** A folder holds one model. */
    AMBIGUOUS_FOLDER("AmbiguousFolder", "open the file you mean, or remove the others");

    private final String id;
    private final String fix;

    SafetensorsRule(String id, String fix) {
        this.id = id;
        this.fix = fix;
    }

    /** Name of the rule in messages and in {@link MalformedModelException#rule()}; the reference reader's name if it has one. */
    public String id() {
        return id;
    }

    /** The exception for a breach of this rule. */
    MalformedModelException broken(String what, String where) {
        return broken(what, where, null);
    }

    MalformedModelException broken(String what, String where, @Nullable Throwable cause) {
        return MalformedModelException.ofRule(id, what, where, fix, cause);
    }
}
