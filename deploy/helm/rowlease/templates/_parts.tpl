{{- define "rowlease.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag }}{{ end }}
{{- end }}

{{- /* Labels of an object: dict "root" $ "part" "worker-default". */}}
{{- define "rowlease.labels" -}}
{{ include "rowlease.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "rowlease.selector" -}}
app.kubernetes.io/name: rowlease
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- /* What every pod has: no rights, no API token, no variables of services (ROWLEASE_DASHBOARD_PORT is
       an option of the dashboard), and a root file system that cannot be written. */}}
{{- define "rowlease.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What every container has: dict "root" $; the dashboard adds "tokens" true and "tls" (a secret). */}}
{{- define "rowlease.container" -}}
image: {{ include "rowlease.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: ROWLEASE_DSN_FILE, value: /run/rowlease/dsn}
  - {name: ROWLEASE_LOG_FORMAT, value: json}
{{- if .tokens }}
{{- range $name := list "reader" "operator" }}
  - name: ROWLEASE_DASHBOARD_{{ upper $name }}_TOKEN
    valueFrom:
      secretKeyRef: {name: {{ $.root.Values.secret.name }}, key: dashboard-{{ $name }}-token, optional: true}
{{- end }}
{{- end }}
volumeMounts:
  - {name: dsn, mountPath: /run/rowlease, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- if .tls }}
  - {name: tls, mountPath: /run/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "rowlease.volumes" -}}
- name: dsn
  secret:
    secretName: {{ .root.Values.secret.name }}
    items: [{key: {{ .key }}, path: dsn}]
- name: tmp
  emptyDir: {}
{{- end }}
