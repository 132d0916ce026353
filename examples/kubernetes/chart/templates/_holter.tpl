{{- define "holter.environment" -}}
{{- with .Values.credentialsSecret }}
envFrom:
  - secretRef: { name: {{ . | quote }} }
{{- end }}
env:
  - name: HOLTER_STORE
    value: {{ .Values.store | quote }}
{{- end }}

{{- define "holter.labels" -}}
app.kubernetes.io/name: holter
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "holter.store" -}}
- name: jobs
  persistentVolumeClaim: { claimName: {{ .Values.volumeClaim | quote }} }
{{- end }}
