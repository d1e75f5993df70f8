package dev.octet.trainer.device.cuda;

import java.util.List;
import java.util.stream.Stream;
import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import jcuda.driver.CUstreamCaptureMode;
import jcuda.driver.JCudaDriver;

/** Works recorded as one CUDA graph, which the driver starts in a single call. */
final class GraphWork implements Work {
    private final GpuContext context;
    private final List<Work> works;
    private final CUgraphExec executable;

    private GraphWork(GpuContext context, List<Work> works, CUgraphExec executable) {
        this.context = context;
        this.works = works;
        this.executable = executable;
    }

    /** Records works; nested graphs are expanded. */
    static GraphWork of(GpuContext context, List<Work> works) {
        List<Work> flat = works.stream()
                .flatMap(w -> w instanceof GraphWork g ? g.works.stream() : Stream.of(w))
                .toList();
        CUgraph graph = capture(context, flat);
        try {
            CUgraphExec executable = new CUgraphExec();
            context.check(JCudaDriver.cuGraphInstantiate(executable, graph, 0), "cuGraphInstantiate");
            // otherwise the first launch would upload it, within a timed step
            context.check(JCudaDriver.cuGraphUpload(executable, context.stream()), "cuGraphUpload");
            return new GraphWork(context, flat, executable);
        } finally {
            context.check(JCudaDriver.cuGraphDestroy(graph), "cuGraphDestroy");
        }
    }

    private static CUgraph capture(GpuContext context, List<Work> works) {
        // other threads may keep calling the driver meanwhile
        context.check(
                JCudaDriver.cuStreamBeginCapture(
                        context.stream(), CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                "cuStreamBeginCapture");
        CUgraph graph = new CUgraph();
        try {
            works.forEach(Work::run);
        } catch (RuntimeException e) {
            // ends the capture; its result is ignored, since the first error is the one to report
            var _ = JCudaDriver.cuStreamEndCapture(context.stream(), graph);
            throw e;
        }
        context.check(JCudaDriver.cuStreamEndCapture(context.stream(), graph), "cuStreamEndCapture");
        return graph;
    }

    @Override
    public void run() {
        context.check(JCudaDriver.cuGraphLaunch(executable, context.stream()), "cuGraphLaunch");
    }

    @Override
    public String name() {
        return "graph of " + works.size();
    }

    @Override
    public long bytes() {
        return works.stream().mapToLong(Work::bytes).sum();
    }

    @Override
    public void close() {
        if (!context.isLost()) {
            context.enter();
            context.check(JCudaDriver.cuGraphExecDestroy(executable), "cuGraphExecDestroy");
        }
    }
}
