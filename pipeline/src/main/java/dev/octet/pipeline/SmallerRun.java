package dev.octet.pipeline;

import dev.octet.formats.error.MemoryLimitException;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.pipeline.run.ShellWord;
import dev.octet.trainer.activation.Recompute;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.DryDevice;
import dev.octet.trainer.device.cpu.HostMemory;
import dev.octet.trainer.hook.RunPlan;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The smallest change of a run's configuration with which it fits a machine's memory: each is planned, none is guessed. */
final class SmallerRun {
    private static final String ANYWAY = "--no-memory-check starts it anyway";

    private SmallerRun() {}

    /** What would refuse a run that is planned. */
    static Optional<Train.Shortage> shortage(Train.Request request, RunPlan plan, Job job) throws IOException {
        Optional<HostMemory> host = HostMemory.find();
        boolean counts = request.device().equals(DeviceName.CPU) && request.memory() == Train.MemoryCheck.REFUSE;
        if (!counts || host.isEmpty() || bytes(plan) <= host.get().limitBytes()) {
            return Optional.empty();
        }
        long limit = host.get().limitBytes();
        try {
            planned(request, List.of(), job, limit); // the plan counts more than what is refused, as weights in files
            return Optional.empty();
        } catch (MemoryLimitException e) {
            return Optional.of(new Train.Shortage(e.neededBytes(), limit, advice(request, job, limit)));
        }
    }

    private static long bytes(RunPlan plan) {
        return plan.lastingBytes() + plan.temporaryBytes();
    }

    /** A sentence that names the smallest change, or says that there is none. */
    static String advice(Train.Request request, Job job, long limit) throws IOException {
        TrainingConfig config = config(request, List.of());
        long least = Long.MAX_VALUE;
        for (List<String> change : changes(config, request)) {
            Optional<Long> bytes;
            try {
                bytes = planned(request, change, job, limit);
            } catch (MemoryLimitException e) {
                least = Math.min(least, e.neededBytes());
                continue;
            }
            if (bytes.isPresent()) {
                String words =
                        change.stream().map(c -> "--set " + ShellWord.of(c)).collect(Collectors.joining(" "));
                return String.format(Locale.ROOT, "%s fits, with %.1f GB; %s", words, bytes.get() / 1e9, ANYWAY);
            }
        }
        return least == Long.MAX_VALUE
                ? "train a smaller model, or an adapter; " + ANYWAY
                : String.format(
                        Locale.ROOT,
                        "no smaller micro-batch, recomputation or offload fits, the least is %.1f GB: train a smaller"
                                + " model, or an adapter; %s",
                        least / 1e9,
                        ANYWAY);
    }

    /** Changes to try, the smallest first: those that keep every number of the run come before those that round otherwise. */
    private static List<List<String>> changes(TrainingConfig config, Train.Request request) {
        List<List<String>> all = new ArrayList<>();
        List<String> again = config.activations().recompute() instanceof Recompute.None
                ? List.of("gradient_checkpointing.layers=all")
                : List.of();
        if (!again.isEmpty()) {
            all.add(again);
        }
        List<List<String>> batches = new ArrayList<>();
        int batch = config.batchSize();
        for (int parts = 2; parts <= batch; parts *= 2) {
            if (batch % parts == 0) {
                batches.add(List.of(
                        "batch_size=" + batch / parts,
                        "gradient_accumulation=" + config.gradientAccumulation() * parts));
            }
        }
        if (batch > 1 && Integer.bitCount(batch) != 1) {
            batches.add(List.of("batch_size=1", "gradient_accumulation=" + config.gradientAccumulation() * batch));
        }
        all.addAll(batches);
        if (!again.isEmpty()) {
            batches.forEach(b -> all.add(join(again, b)));
        }
        if (!config.offload().isOn()) {
            Path parent = request.folder().toAbsolutePath().normalize().getParent();
            List<String> away =
                    List.of("offload.states=disk", "offload.path=" + (parent == null ? request.folder() : parent));
            all.add(away);
            all.add(join(away, again));
            if (!batches.isEmpty()) {
                all.add(join(away, join(again, batches.getLast())));
            }
        }
        return all;
    }

    private static List<String> join(List<String> a, List<String> b) {
        return Stream.concat(a.stream(), b.stream()).toList();
    }

    private static TrainingConfig config(Train.Request request, List<String> change) throws IOException {
        return TrainingConfig.of(
                RunFolder.merged(
                                request.config(),
                                join(request.settings(), change),
                                request.simulatedRanks(),
                                request.dialects().on(request.device().isGpu()))
                        .section(),
                RunFolder.configFolder(request.config(), request.folder()));
    }

    /**
     * Bytes of the run with a change; empty where the change is not possible.
     *
     * @throws MemoryLimitException when it needs more than {@code limit}
     */
    private static Optional<Long> planned(Train.Request request, List<String> change, Job job, long limit)
            throws IOException {
        try (TrainingJob opened = TrainingJob.openOn(
                threads -> new DryDevice(request.device().open(threads), limit),
                request.model(),
                config(request, change),
                job,
                Collectives.alone())) {
            return Optional.of(bytes(opened.trainer().plan()));
        } catch (MemoryLimitException e) {
            throw e;
        } catch (OctetException e) { // no layers, too few samples, a place that is not there
            return Optional.empty();
        }
    }
}
