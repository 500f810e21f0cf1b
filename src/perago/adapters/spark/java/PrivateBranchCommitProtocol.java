package org.perago.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;

/**
 * Writes final names at once, because a staging branch is private until it is published.
 *
 * Every attempt of a task has names of its own. A task commits by telling the driver its names; a
 * job commits by writing them into one object. What that object does not name is removed, here
 * and again before the branch is committed, so that task retries, speculation and lost executors
 * leave nothing behind. Local files and dynamic partition overwrite take Spark's own protocol.
 */
public class PrivateBranchCommitProtocol extends SQLHadoopMapReduceCommitProtocol
    implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String job;
  private final String root;
  private final boolean isDirect;
  private transient List<String> written;

  public PrivateBranchCommitProtocol(String jobId, String path, boolean dynamicOverwrite) {
    super(jobId, path, dynamicOverwrite);
    job = jobId;
    root = path;
    isDirect = path != null && path.startsWith("s3a:") && !dynamicOverwrite;
  }

  public void setupJob(JobContext context) {
    if (!isDirect) {
      super.setupJob(context);
    }
  }

  public void setupTask(TaskAttemptContext context) {
    if (!isDirect) {
      super.setupTask(context);
      return;
    }
    written = new ArrayList<String>();
  }

  public String newTaskTempFile(
      TaskAttemptContext context, scala.Option<String> directory, FileNameSpec spec) {
    if (!isDirect) {
      return super.newTaskTempFile(context, directory, spec);
    }
    String base = directory.isDefined() ? root + "/" + directory.get() : root;
    return remember(context, base, spec);
  }

  public String newTaskTempFileAbsPath(
      TaskAttemptContext context, String directory, FileNameSpec spec) {
    if (!isDirect) {
      return super.newTaskTempFileAbsPath(context, directory, spec);
    }
    return remember(context, directory, spec);
  }

  public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
    if (!isDirect) {
      return super.commitTask(context);
    }
    return new FileCommitProtocol.TaskCommitMessage(written.toArray(new String[0]));
  }

  public void abortTask(TaskAttemptContext context) {
    if (!isDirect) {
      super.abortTask(context);
      return;
    }
    try {
      for (int i = 0; i < written.size(); i++) {
        Path path = new Path((String) written.get(i));
        path.getFileSystem(context.getConfiguration()).delete(path, false);
      }
    } catch (java.io.IOException error) {
      log().warn("files of an aborted task stay until the branch is swept", error);
    }
  }

  public void commitJob(
      JobContext context,
      scala.collection.immutable.Seq<FileCommitProtocol.TaskCommitMessage> messages) {
    if (!isDirect) {
      super.commitJob(context, messages);
      return;
    }
    Set<String> committed = new HashSet<String>();
    scala.collection.Iterator iterator = messages.iterator();
    while (iterator.hasNext()) {
      Object message = ((FileCommitProtocol.TaskCommitMessage) iterator.next()).obj();
      String[] names = (String[]) message;
      for (int i = 0; i < names.length; i++) {
        committed.add(names[i]);
      }
    }
    try {
      writeManifest(context.getConfiguration(), committed);
      removeOthers(context.getConfiguration(), committed);
    } catch (java.io.IOException error) {
      throw new RuntimeException("the job could not be committed: " + error.getMessage(), error);
    }
  }

  public void abortJob(JobContext context) {
    if (!isDirect) {
      super.abortJob(context);
      return;
    }
    try {
      removeOthers(context.getConfiguration(), new HashSet<String>());
    } catch (java.io.IOException error) {
      log().warn("files of an aborted job stay until the branch is swept", error);
    }
  }

  /**
   * S3A tries to leave a marker for the parent of what it has deleted. On the root of an empty
   * branch there is no such object, and it answers that nothing was deleted.
   */
  public boolean deleteWithJob(FileSystem files, Path path, boolean recursive) {
    try {
      return files.delete(path, recursive) || !files.exists(path);
    } catch (java.io.IOException error) {
      throw new RuntimeException(path + " could not be deleted: " + error.getMessage(), error);
    }
  }

  private String remember(TaskAttemptContext context, String base, FileNameSpec spec) {
    org.apache.hadoop.mapreduce.TaskAttemptID attempt = context.getTaskAttemptID();
    String number = String.valueOf(attempt.getTaskID().getId());
    StringBuilder name = new StringBuilder(base).append('/').append(spec.prefix()).append("part-");
    for (int i = number.length(); i < 5; i++) {
      name.append('0');
    }
    name.append(number).append('-').append(job).append("-try").append(attempt.getId());
    name.append(spec.suffix());
    written.add(name.toString());
    return name.toString();
  }

  private void writeManifest(Configuration configuration, Set<String> committed)
      throws java.io.IOException {
    StringBuilder text = new StringBuilder();
    java.util.Iterator names = committed.iterator();
    while (names.hasNext()) {
      String path = new Path((String) names.next()).toUri().getPath();
      text.append(path.substring(path.indexOf('/', 1) + 1)).append('\n');
    }
    Path manifest = new Path(root, "_perago_committed-" + job);
    FSDataOutputStream out = manifest.getFileSystem(configuration).create(manifest, true);
    try {
      out.write(text.toString().getBytes("UTF-8"));
    } finally {
      out.close();
    }
  }

  private void removeOthers(Configuration configuration, Set<String> committed)
      throws java.io.IOException {
    Path path = new Path(root);
    FileSystem files = path.getFileSystem(configuration);
    RemoteIterator found;
    try {
      found = files.listFiles(path, true);
    } catch (java.io.FileNotFoundException error) {
      return;
    }
    while (found.hasNext()) {
      Path file = ((LocatedFileStatus) found.next()).getPath();
      boolean isOurs = file.getName().indexOf(job + "-try") >= 0;
      if (isOurs && !committed.contains(file.toString())) {
        files.delete(file, false);
      }
    }
  }
}
