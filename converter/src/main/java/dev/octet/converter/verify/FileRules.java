package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Files, their headers and the index. */
final class FileRules {
    /** Headers, index and configuration that break a rule of their format. */
    static final CheckpointRule MALFORMED = Demand.error("file-malformed", Consumer.OF_CHECKPOINTS)
            .text("Every file keeps the rules of its format.")
            .fix("download or export the named file again")
            .source("huggingface/safetensors:safetensors/src/tensor.rs")
            .onCheckpoints(FileRules::malformed);

    /** Rules of safetensors that have a rule of their own here. */
    private static final Set<String> ELSEWHERE =
            Set.of("DuplicateKey", "MissingShard", "MissingTensor", "StaleTensor", "TensorInTwoShards");

    private static void malformed(CheckpointSubject subject, Report report) {
        for (MalformedModelException problem : subject.problems()) {
            if (problem.rule().filter(ELSEWHERE::contains).isEmpty()) {
                report.add(problem.what(), problem.where(), "");
            }
        }
    }

    /** Names that occur twice in one header or index. */
    static final CheckpointRule DUPLICATE_KEY = Demand.error("duplicate-key", Consumer.OF_CHECKPOINTS)
            .text("No name occurs twice in a header or index: readers silently keep the last.")
            .fix("export the file again; two readers see two different tensors")
            .source("huggingface/safetensors:safetensors/src/tensor.rs")
            .onCheckpoints(FileRules::duplicateKey);

    private static void duplicateKey(CheckpointSubject subject, Report report) {
        for (MalformedModelException problem : subject.problems()) {
            if (problem.rule().filter("DuplicateKey"::equals).isPresent()) {
                report.add(problem.what(), problem.where(), "");
            }
        }
    }

    /** Files that an index names and that are not there. */
    static final CheckpointRule SHARD_MISSING = Demand.error("shard-missing", Consumer.OF_CHECKPOINTS)
            .text("Every file that the index names is there.")
            .fix("the download is incomplete: fetch the missing files")
            .source("vllm-project/vllm#40765, huggingface/huggingface_hub:src/huggingface_hub/serialization/_base.py")
            .onCheckpoints(FileRules::shardMissing);

    private static void shardMissing(CheckpointSubject subject, Report report) {
        subject.checkpoint()
                .index()
                .ifPresent(index -> shardMissing(index, subject.checkpoint().folder(), report));
    }

    private static void shardMissing(ShardIndex index, Path folder, Report report) {
        for (String name : index.shardNames()) {
            if (!exists(folder, name)) {
                report.add("a file that the index names is not there", name, "");
            }
        }
    }

    private static boolean exists(Path folder, String name) {
        try {
            return Files.exists(folder.resolve(name));
        } catch (InvalidPathException e) {
            return false; // a name that no file can have
        }
    }

    /** Tensors that an index promises and their file lacks. */
    static final CheckpointRule TENSOR_MISSING = Demand.error("tensor-missing", Consumer.OF_CHECKPOINTS)
            .text("Every tensor of the index is in the file that the index names.")
            .fix("index and files are of different exports: download or export the folder again")
            .source("vllm-project/vllm#40765, huggingface/huggingface_hub:src/huggingface_hub/serialization/_base.py")
            .onCheckpoints(FileRules::tensorMissing);

    private static void tensorMissing(CheckpointSubject subject, Report report) {
        subject.checkpoint().index().ifPresent(index -> tensorMissing(index, subject, report));
    }

    private static void tensorMissing(ShardIndex index, CheckpointSubject subject, Report report) {
        // files that could not be read are reported elsewhere, not again for each of their tensors
        Set<String> readable =
                subject.checkpoint().shards().stream().map(Shard::name).collect(Collectors.toSet());
        index.weightMap().forEach((tensor, file) -> {
            StoredTensor found = subject.checkpoint().tensor(tensor);
            if (readable.contains(file)
                    && (found == null || !found.shard().name().equals(file))) {
                report.add(
                        "a tensor is not in the file that the index names",
                        tensor,
                        found == null ? "not in " + file : "in " + found.shard().name() + ", not in " + file);
            }
        });
    }

    /** Tensors in files of an index that the index does not list. */
    static final CheckpointRule TENSOR_STALE = Demand.error("tensor-stale", Consumer.OF_CHECKPOINTS)
            .text("Every tensor of a listed file is in the index: some loaders take all tensors of a file, others only"
                    + " those listed.")
            .fix("index and files are of different exports: download or export the folder again")
            .source("vllm-project/vllm#54230, vllm-project/vllm:vllm/model_executor/model_loader/weight_utils.py")
            .onCheckpoints(FileRules::tensorStale);

    private static void tensorStale(CheckpointSubject subject, Report report) {
        subject.checkpoint().index().ifPresent(index -> {
            Set<String> listed = index.shardNames(); // goes through the whole index
            for (Shard shard : subject.checkpoint().shards()) {
                if (listed.contains(shard.name())) {
                    tensorStale(index, shard, report);
                }
            }
        });
    }

    private static void tensorStale(ShardIndex index, Shard shard, Report report) {
        for (ShardHeader.Entry entry : shard.header().entries()) {
            String name = entry.spec().name();
            if (!index.weightMap().containsKey(name)) {
                report.add("a tensor of a listed file is not in the index", name, "in " + shard.name());
            }
        }
    }

    /** Tensors that are in two files. */
    static final CheckpointRule TENSOR_TWICE = Demand.error("tensor-twice", Consumer.OF_CHECKPOINTS)
            .text("No tensor is in two files: which one wins depends on the loader.")
            .fix("export the folder again with each tensor in one file")
            .source("vllm-project/vllm#54230, vllm-project/vllm#40765")
            .onCheckpoints(FileRules::tensorTwice);

    private static void tensorTwice(CheckpointSubject subject, Report report) {
        for (Shard shard : subject.checkpoint().shards()) {
            for (ShardHeader.Entry entry : shard.header().entries()) {
                StoredTensor first = subject.checkpoint().tensor(entry.spec().name());
                if (first != null && !first.shard().name().equals(shard.name())) {
                    report.add(
                            "a tensor is in two files",
                            entry.spec().name(),
                            "in " + first.shard().name() + " and " + shard.name());
                }
            }
        }
    }

    /** Other safetensors files in the checkpoint's folder. */
    static final CheckpointRule UNLISTED = Demand.warning("file-unlisted", Consumer.OF_CHECKPOINTS)
            .text("The folder holds only the safetensors files of the checkpoint: loaders that take all files"
                    + " load the others as well.")
            .fix("move the other files out of the folder")
            .source("vllm-project/vllm#54230, vllm-project/vllm:vllm/model_executor/model_loader/weight_utils.py")
            .onCheckpoints(FileRules::unlisted);

    private static void unlisted(CheckpointSubject subject, Report report) throws IOException {
        Checkpoint checkpoint = subject.checkpoint();
        if (checkpoint.index().isEmpty() && Files.isRegularFile(checkpoint.path())) {
            return; // one file was asked for; its neighbours do not matter
        }
        Set<String> listed = new HashSet<>();
        checkpoint.index().ifPresent(i -> listed.addAll(i.shardNames()));
        checkpoint.shards().stream().map(Shard::name).forEach(listed::add);
        if (checkpoint.index().isPresent()) {
            listed.retainAll(checkpoint.index().get().shardNames());
        }
        for (String name : files(checkpoint.folder())) {
            if (!listed.contains(name)) {
                boolean indexed = checkpoint.index().isPresent();
                report.add(
                        indexed ? Severity.WARNING : Severity.ERROR,
                        indexed ? UNLISTED.consumers() : Consumer.VLLM_LIKE,
                        indexed ? "a file is not in the index" : "a second model file and no index: both are loaded",
                        name,
                        "");
            }
        }
    }

    private static List<String> files(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(f -> String.valueOf(f.getFileName()))
                    .filter(n -> n.endsWith(".safetensors"))
                    .sorted()
                    .toList();
        }
    }

    /** The index's sum of bytes. */
    static final CheckpointRule TOTAL_SIZE = Demand.advice("total-size", Consumer.OF_CHECKPOINTS)
            .text("metadata.total_size of the index is the number of bytes of all tensors.")
            .fix("write the sum of the tensors' bytes, headers not counted, or leave it out")
            .source("huggingface/huggingface_hub:src/huggingface_hub/serialization/_base.py")
            .onCheckpoints(FileRules::totalSize);

    private static void totalSize(CheckpointSubject subject, Report report) {
        OptionalLong claimed =
                subject.checkpoint().index().map(i -> i.totalSize()).orElse(OptionalLong.empty());
        long bytes = subject.checkpoint().shards().stream()
                .mapToLong(s -> s.header().dataBytes())
                .sum();
        if (claimed.isPresent() && subject.complete() && claimed.getAsLong() != bytes) {
            report.add(
                    "total_size is not the number of bytes in the files",
                    "metadata.total_size",
                    claimed.getAsLong() + " claimed, " + bytes + " there");
        }
    }

    /** How the tensors are stored. */
    static final CheckpointRule FILE_FORMAT = Demand.error("file-format", Consumer.OF_CHECKPOINTS)
            .text("Tensors lie in files of safetensors: engines load no checkpoint of a training program, and files of"
                    + " torch.save only by running their pickles.")
            .fix("make a folder of safetensors: octet convert MODEL -o DIR --target huggingface")
            .source("vllm-project/vllm:vllm/model_executor/model_loader/weight_utils.py,"
                    + " huggingface/transformers:src/transformers/modeling_utils.py")
            .onCheckpoints(FileRules::fileFormat);

    private static void fileFormat(CheckpointSubject subject, Report report) {
        Checkpoint checkpoint = subject.checkpoint();
        if (checkpoint.isSafetensors()) {
            return;
        }
        String format = checkpoint.format().name();
        boolean loaded = format.equals("torch");
        report.add(
                loaded ? Severity.WARNING : Severity.ERROR,
                FILE_FORMAT.consumers(),
                loaded
                        ? "the tensors lie in a pickle of torch"
                        : "the tensors lie in a checkpoint of a training program",
                String.valueOf(checkpoint.path().getFileName()),
                format);
    }

    /** The header's word on which library wrote it. */
    static final CheckpointRule FORMAT_METADATA = Demand.warning("format-metadata", Consumer.TRANSFORMERS)
            .text("__metadata__ of every file has \"format\": \"pt\": older transformers refuse a file without it.")
            .fix("add \"format\": \"pt\" to the metadata of the header")
            .source("huggingface/transformers:src/transformers/modeling_utils.py")
            .onCheckpoints(FileRules::formatMetadata);

    private static void formatMetadata(CheckpointSubject subject, Report report) {
        for (Shard shard : subject.checkpoint().shards()) {
            String format = shard.header().metadata().get("format");
            if (format == null) {
                report.add("a file has no format in its metadata", shard.name(), "");
            }
        }
    }

    /** State of a training run that inference does not read. */
    static final CheckpointRule TRAINING_STATE = Demand.warning("training-state", Consumer.OF_CHECKPOINTS)
            .text("A checkpoint for inference has no _extra_state: it holds pickles that newer readers refuse.")
            .fix("remove the _extra_state tensors; octet convert does")
            .source("NVIDIA/TransformerEngine:transformer_engine/pytorch/module/base.py")
            .onCheckpoints(FileRules::trainingState);

    private static void trainingState(CheckpointSubject subject, Report report) {
        subject.checkpoint().tensors().keySet().stream()
                .filter(n -> n.endsWith("_extra_state"))
                .forEach(n -> report.add("a tensor holds a training library's state", n, ""));
    }

    /** Tensors of the original that are not in the checkpoint. */
    static final CheckpointRule ORIGINAL_TENSORS = Demand.error("original-tensors", Consumer.OF_CHECKPOINTS)
            .text("Every tensor of the original is there, with its shape.")
            .fix("export again; a tensor was lost or cut on the way")
            .source("amd/Quark#42, vllm-project/vllm#54556")
            .withOriginal()
            .onCheckpoints(FileRules::originalTensors);

    private static void originalTensors(CheckpointSubject subject, Report report) {
        Checkpoint original = subject.original();
        if (original == null) {
            return;
        }
        boolean tied = subject.config() != null
                && subject.config().path("tie_word_embeddings").asBoolean(false);
        for (StoredTensor tensor : original.tensors().values()) {
            Shape found = shape(subject, tensor.name());
            if (found == null && !(tied && tensor.name().endsWith("lm_head.weight")) && !subject.lost(tensor.name())) {
                report.add(
                        "a tensor of the original is not there",
                        tensor.name(),
                        tensor.shape().toString());
            } else if (found != null && !found.equals(tensor.shape())) {
                report.add(
                        "a tensor has another shape than in the original",
                        tensor.name(),
                        found + ", in the original " + tensor.shape());
            }
        }
    }

    private static @Nullable Shape shape(CheckpointSubject subject, String name) {
        StoredWeight weight = subject.stored().weights().get(name);
        if (weight != null) {
            return weight.shape();
        }
        StoredTensor plain = subject.checkpoint().tensor(name);
        return plain == null ? null : plain.shape();
    }

    private FileRules() {}
}
