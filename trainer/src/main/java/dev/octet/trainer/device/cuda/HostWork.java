package dev.octet.trainer.device.cuda;

/**
 * What the host does when all work before it is complete, and before work behind it starts. No graph has it.
 *
 * @param name for logs
 */
record HostWork(String name, Runnable body) implements Work {
    @Override
    public void run() {
        body.run();
    }
}
